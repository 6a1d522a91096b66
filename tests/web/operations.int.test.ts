// An install on real workers with real downloads in the browser, and one whose worker is killed meanwhile.
import { startHostileRegistry, waitFor, type HostileRegistry } from '@muster/testkit'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, untilHealthy, type Fleet } from '../fleet/fleet-world.ts'
import { backendImage, noise } from '../install/worker-world.ts'
import { visitWeb } from './web-world.ts'

let registry: HostileRegistry
let fleet: Fleet
const backends = ['steady', 'killed'] as const
const chunkBytes = 16 * 1024

beforeAll(async () => {
  registry = await startHostileRegistry()
  for (const backend of backends) {
    const image = backendImage('1.0', [{ path: 'weights', data: noise(512 * 1024, backend) }], { compression: 'none' })
    registry.addImage(backend, image, 'v1')
    // A step of 3 % every 300 ms takes about ten seconds.
    for (const { digest } of image.layers.slice(1)) registry.on(digest, { do: 'slow', chunkBytes, everyMs: 300 }, 1_000)
  }
  const gallery = backends.map((name) => ({ name, version: '1.0', uri: `oci://${registry.host}/${name}:v1` }))
  fleet = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one', 'two'], gallery })
})
afterAll(async () => {
  await fleet[Symbol.asyncDispose]()
  await registry.stop()
})

async function install(backend: string): Promise<string> {
  const { status, text, body } = await fleet.api.post('/api/backends/install', { backend })
  if (status !== 202) throw new Error(`${status} ${text}`)
  return String(body['operation_id'])
}
interface SeenRow {
  readonly name: string
  readonly status: string
  readonly percent: number
  readonly text: string
}
/** Records every change of the drawer's rows from now on. */
async function watchRows(page: Page): Promise<() => Promise<SeenRow[][]>> {
  await page.evaluate(`{
    const snapshot = () => [...document.querySelectorAll('dialog li')].map((row) => ({
      name: row.getAttribute('aria-label'),
      status: row.dataset.status,
      percent: Number(row.querySelector('[role=progressbar]').getAttribute('aria-valuenow')),
      text: row.innerText,
    }))
    window.seenRows = [snapshot()]
    new MutationObserver(() => window.seenRows.push(snapshot())).observe(document.querySelector('dialog'), {
      subtree: true, childList: true, characterData: true, attributes: true,
    })
  }`)
  return () => page.evaluate<SeenRow[][]>('window.seenRows')
}
const changes = (values: readonly string[]): string[] => values.filter((value, index) => value !== values[index - 1])

describe('an install on two workers', () => {
  it('S2.39 S2.46 S2.49 shows both in the drawer: no bar goes back, no row disappears, each shows its phase', async () => {
    await using visitor = await visitWeb(fleet, { path: '/nodes' })
    const { page, problems } = visitor
    const id = await install('steady')
    // The strip, which is on every page, opens the drawer.
    await page.getByRole('link', { name: /^Install steady →/ }).click()
    const drawer = page.getByRole('dialog', { name: /^Install steady · started / })
    await drawer.getByRole('listitem', { name: 'two' }).waitFor()
    expect(new URL(page.url()).searchParams.get('op')).toBe(id)
    const seen = await watchRows(page)
    await drawer.getByText('downloading files').first().waitFor()
    await drawer.getByText(/kB\/s/).waitFor()
    await drawer.getByText(/^about \d+s$/).waitFor()
    for (const name of ['one', 'two']) await drawer.getByRole('listitem', { name }).getByText('Done').waitFor()

    const snapshots = await seen()
    expect(new Set(snapshots.map((rows) => rows.map(({ name }) => name).join()))).toEqual(new Set(['one,two']))
    for (const name of ['one', 'two']) {
      const rows = snapshots.flatMap((snapshot) => snapshot.filter((row) => row.name === name))
      const percents = rows.map(({ percent }) => percent)
      expect(percents).toEqual(percents.toSorted((a, b) => a - b))
      expect(new Set(percents).size).toBeGreaterThan(8)
      expect(['queued,downloading,success', 'downloading,success']).toContain(changes(rows.map(({ status }) => status)).join())
      const working = rows.filter(({ status, percent }) => status === 'downloading' && percent > 5 && percent < 95)
      expect(working.filter(({ text }) => !/downloading files|extracting files/.test(text))).toEqual([])
      expect(working.some(({ text }) => /sha256:/.test(text) && / of 0\.5 MB| of 5\d\d kB/.test(text))).toBe(true)
    }
    expect(problems()).toEqual([])
  })

  it('a worker that is killed is queued with the reason, and finishes when it returns', async () => {
    await using visitor = await visitWeb(fleet, { path: '/operations' })
    const { page, problems } = visitor
    const id = await install('killed')
    await visitor.goto(`/operations?op=${id}`)
    const row = page.getByRole('dialog').getByRole('listitem', { name: 'two' })
    await row.getByText('Downloading', { exact: true }).waitFor()
    await waitFor(async () => Number(await row.getByRole('progressbar').getAttribute('aria-valuenow')) > 20, { what: 'a fifth of it' })
    fleet.workers.get('two')?.kill('SIGKILL')
    await row.getByText('Queued').waitFor()
    await row.getByText('node unhealthy, will retry when healthy').waitFor()
    // The progress is kept.
    expect(Number(await row.getByRole('progressbar').getAttribute('aria-valuenow'))).toBeGreaterThan(20)
    await page.getByRole('dialog').getByRole('listitem', { name: 'one' }).getByText('Done').waitFor()
    await fleet.startWorker('two')
    await row.getByText('Done').waitFor({ timeout: 60_000 })
    await page.getByRole('dialog').getByText('2 of 2 nodes done').waitFor()
    await untilHealthy(fleet, 2)
    expect(problems()).toEqual([])
  })
})
