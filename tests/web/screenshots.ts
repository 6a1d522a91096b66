// Screenshots of every page in light and dark (docs/screenshots), of a real fleet with three workers under load and a
// scripted backend. `npm run screenshots -- nodes` takes some of them.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openBrowser, startTestPostgres, waitFor } from '@muster/testkit'
import { startLoad } from '../fleet/load.ts'
import { startShowcaseFleet } from './showcase-fleet.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

const directory = join(import.meta.dirname, '../../docs/screenshots')
const names = process.argv.slice(2)

await mkdir(directory, { recursive: true })
await using postgres = await startTestPostgres()
await using fleet = await startShowcaseFleet({
  postgresUrl: postgres.url(),
  workers: ['gpu-1', 'gpu-2', 'jetson'],
  pending: 'workstation-7',
  words: 'Speech and text, for meetings and calls',
  lastWords: 'out of memory: 18.2 GiB asked for, 11.7 GiB free',
  missing: 'file:///srv/backends/diffusers',
})
const load = startLoad(fleet.controllers, { model: 'chat', perSecond: 6, script: { tokens: 40, delay_ms: 15 } })
// Charts need a few intervals of ten seconds.
await waitFor(() => load.count() > 300, { what: 'some load', timeoutMs: 300_000 })

const pages: readonly (readonly [name: string, path: string])[] = [
  ['overview', '/'],
  ['nodes', '/nodes'],
  ['node', `/nodes/${fleet.node}`],
  ['add-node', '/nodes?add=true'],
  ['backends', '/backends'],
  ['gallery', '/backends?tab=gallery'],
  ['install', '/backends?act=install&backend=vision'],
  ['models', '/models'],
  ['model', '/models/chat'],
  ['model-failed', '/models/broken'],
  ['operation', `/operations?op=${fleet.running}`],
  ['operations', '/operations?tab=history'],
  ['playground', '/playground?model=chat'],
  ['settings', '/settings'],
]
await using browser = await openBrowser()
for (const colorScheme of ['light', 'dark'] as const) {
  await using visitor = await visitWeb(fleet, { browser, colorScheme })
  for (const [name, path] of pages.filter(([one]) => names.length === 0 || names.includes(one))) {
    await visitor.goto(path)
    await untilLoaded(visitor)
    if (name === 'playground') await sendMessage(visitor)
    // The chart library is loaded lazily.
    if (name === 'overview' || name === 'node') await visitor.page.locator('canvas').last().waitFor({ timeout: 60_000 })
    await visitor.page.screenshot({ path: join(directory, `${name}-${colorScheme}.png`), animations: 'disabled' })
    process.stdout.write(`${name} ${colorScheme}\n`)
  }
}
await load.stop()

async function untilLoaded({ page }: WebVisitor): Promise<void> {
  await page.getByText('live', { exact: true }).waitFor({ timeout: 60_000 })
  await page
    .getByText(/^Loading .*…/)
    .first()
    .waitFor({ state: 'detached' })
}

async function sendMessage({ page }: WebVisitor): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill('What does a fleet need?')
  await page.keyboard.press('Enter')
  await page.getByRole('note', { name: 'Statistics' }).waitFor({ timeout: 60_000 })
}
