// Backends in the browser: previews, installs, upgrades and deletions.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { waitFor } from '@muster/testkit'
import type { Locator, Page } from 'playwright-core'
import { startRollingWorld, type RollingWorld } from '../fleet/rolling-world.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

let world: RollingWorld
let visitor: WebVisitor
let page: Page
beforeAll(async () => {
  world = await startRollingWorld({
    postgresUrl: inject('postgresUrl'),
    workers: ['one', 'two'],
    gallery: [
      { name: 'lost', uri: 'oci://127.0.0.1:9/lost:latest', description: 'At an unreachable registry.' },
      { name: 'apples', capabilities: { metal: 'apples-metal' }, license: 'MIT', tags: ['speech'] },
      { name: 'lost-development', uri: 'oci://127.0.0.1:9/lost:master' },
      { name: 'torn', uri: 'gopher://127.0.0.1/torn' },
    ],
  })
  visitor = await visitWeb(world, { path: '/backends' })
  page = visitor.page
})
afterAll(async () => {
  await visitor?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
})

const sheet = (name: string): Locator => page.getByRole('dialog', { name })
/** The nodes under a heading of a preview with their notes, without bytes. */
const outcome = async (of: Locator, name: string): Promise<string[]> =>
  (await of.getByRole('list', { name }).getByRole('listitem').allInnerTexts()).map((text) =>
    text.replace(/\s+[\d.]+ kB$/, '').replace(/\s+/g, ' '),
  )
const installed = (name: string): Locator =>
  page.getByRole('list', { name: 'Installed backends' }).getByRole('article', { name, exact: true })
/** The server's message about an unreachable registry. */
const refusal = (of: Locator): Locator => of.getByRole('alert').getByText(/ECONNREFUSED/)
const closeDrawer = async (): Promise<void> => {
  await page.waitForURL(/[?&]op=/)
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}
const countOperations = async (): Promise<number> =>
  ((await world.api.get('/api/operations?state=all')).body['operations'] as unknown as unknown[]).length

describe('backends in the browser', { timeout: 150_000 }, () => {
  it('installs from the gallery on two nodes after a preview', async () => {
    await page.getByText('No backends installed.').waitFor()
    await page.getByRole('link', { name: 'Install scripted', exact: true }).click()
    const install = sheet('Install scripted')
    await install.getByText(/^Installs on 2 nodes now\. Downloads at most [\d.]+ kB\.$/).waitFor()
    expect(await outcome(install, 'Install now')).toEqual(['one', 'two'])
    await install.getByRole('button', { name: 'Install scripted on 2 nodes' }).click()
    await page.getByText('Started: Install scripted on 2 nodes').waitFor()
    await closeDrawer()
    await page.getByRole('link', { name: /^Installed/ }).click()
    await page.getByText('1 backend on 2 nodes.').waitFor()
    await installed('scripted').getByText('on 2 nodes').click()
    const row = installed('scripted').getByRole('row', { name: 'one' })
    expect(await row.getByRole('cell').nth(1).innerText()).toContain('healthy')
    expect(await row.getByRole('cell').nth(2).innerText()).toBe('1.0.0')
    expect(visitor.problems()).toEqual([])
  })

  it('finds an offer by search, and lists the nodes that it does not fit', async () => {
    await visitor.goto('/backends?tab=gallery')
    await page.getByRole('searchbox', { name: 'Search gallery' }).fill('speech mit')
    await page.getByText(/^1 of \d backends match/).waitFor()
    expect(page.url()).toContain('q=speech')
    const offer = page.getByRole('article', { name: 'apples' })
    await offer.getByText('fits 0 of 2 nodes').click()
    expect(await offer.getByRole('listitem').innerText()).toMatch(/^one and two: .+/)
    expect(visitor.problems()).toEqual([])
  })

  it('names entries that are left out, and shows development builds on demand', async () => {
    await visitor.goto('/backends?tab=gallery')
    const left = page.getByRole('region', { name: 'Some entries could not be read' })
    expect(await left.getByRole('listitem').innerText()).toMatch(/entry \d+ \(torn\): unsupported source/)
    const build = page.getByRole('article', { name: 'lost-development' })
    await page.getByRole('article', { name: 'lost', exact: true }).waitFor()
    expect(await build.count()).toBe(0)
    await page.getByRole('checkbox', { name: 'Show development builds' }).check()
    await build.waitFor()
    expect(page.url()).toContain('dev=yes')
    await visitor.goto('/settings?tab=galleries')
    await page.getByText('1 left out').waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('installs from a URI on one selected node, by keyboard only', async () => {
    await visitor.goto('/backends?tab=gallery')
    const type = async (label: string, text: string): Promise<void> => {
      await tabTo(label)
      await page.keyboard.type(text)
    }
    await tabTo('Install from URI')
    await page.keyboard.press('Enter')
    const install = sheet('Install from URI')
    await type('URI', `oci://${world.registry.host}/scripted:latest`)
    await type('Name', 'typed')
    await install.getByRole('button', { name: 'Install typed on 2 nodes' }).waitFor()
    await tabTo('All compatible nodes')
    await page.keyboard.press('ArrowDown')
    await install.getByText('Select at least one node.').first().waitFor()
    expect(await install.getByRole('button', { name: 'Install typed' }).isDisabled()).toBe(true)
    await tabTo('two')
    await page.keyboard.press('Space')
    await install.getByRole('button', { name: 'Install typed on 1 node' }).waitFor()
    expect(await outcome(install, 'Install now')).toEqual(['two'])
    await tabTo('Install typed on 1 node')
    await page.keyboard.press('Enter')
    await closeDrawer()
    await visitor.goto('/backends')
    await installed('typed').getByText('on 1 node').click()
    expect(await installed('typed').getByRole('row').count()).toBe(2)
    await installed('typed').getByRole('row', { name: 'two' }).waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('leaves nodes with the backend unchanged when it is installed on more nodes', async () => {
    await page.getByRole('link', { name: 'Install on more nodes: scripted' }).click()
    const install = sheet('Install scripted')
    await install.getByText('2 nodes already have it.').waitFor()
    expect(await outcome(install, 'Already installed')).toEqual(['one has 1.0.0', 'two has 1.0.0'])
    await page.keyboard.press('Escape')
    await install.waitFor({ state: 'detached' })
    expect(page.url()).not.toContain('act')
  })

  it('S3.15 a banner counts updates, Upgrade all starts with a notice, and the banner disappears when done', async () => {
    await visitor.goto('/backends')
    const banner = page.getByRole('region', { name: 'Updates' })
    expect(await banner.count()).toBe(0)
    await world.publish('2.0.0')
    await page.getByRole('button', { name: 'Check now' }).click()
    await banner.waitFor()
    const build = 'build [0-9a-f]{8}'
    expect(await banner.getByRole('paragraph').innerText()).toMatch(
      new RegExp(`2 updates available: scripted 1.0.0 → ${build}, typed 1.0.0 → ${build}\\.$`),
    )
    await installed('scripted').getByText('update available').waitFor()
    await page.getByRole('navigation', { name: 'Pages' }).getByText('2 with updates').waitFor({ state: 'attached' })
    await banner.getByRole('button', { name: 'Upgrade all' }).click()
    const all = sheet('Upgrade all')
    await all.getByRole('checkbox', { name: /^scripted 1\.0\.0 → build/ }).waitFor()
    expect(await all.getByText('On 2 nodes.').count()).toBe(1)
    await all.getByRole('button', { name: 'Upgrade 2 backends' }).click()
    await page.getByText('Upgrade started: scripted and typed').waitFor()
    await banner.waitFor({ state: 'detached', timeout: 60_000 })
    await page.getByText('2 backends on 2 nodes. All up to date.').waitFor()
    await installed('scripted').getByText('2.0.0', { exact: true }).first().waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('shows an upgrade of an up-to-date backend as a verification', async () => {
    await page.getByRole('link', { name: 'Upgrade scripted', exact: true }).click()
    const upgrade = sheet('Upgrade scripted')
    await upgrade.getByRole('button', { name: 'Verify scripted on 2 nodes' }).waitFor()
    await world.publish('3.0.0')
    await upgrade.getByRole('radio', { name: 'Recreate' }).check()
    await upgrade.getByRole('button', { name: 'Upgrade scripted on 2 nodes' }).waitFor()
    await upgrade.getByRole('radio', { name: 'Rolling' }).check()
    await upgrade.getByRole('textbox', { name: 'Canary nodes' }).fill('none')
    await upgrade.getByText('Enter a number from 1 to 10,000.').waitFor()
    expect(await upgrade.getByRole('button', { name: /^Upgrade scripted/ }).isDisabled()).toBe(true)
    await page.keyboard.press('Escape')
    expect(visitor.problems()).toEqual([])
  })

  it('deletes a backend with running models only after confirming to drain them', async () => {
    await world.putModel('chatty')
    expect((await world.ask('chatty')).status).toBe(200)
    const before = await countOperations()
    await visitor.goto('/backends?act=delete&backend=scripted')
    const remove = sheet('Delete scripted')
    const inUse = remove.getByRole('region', { name: 'In use' })
    await inUse.getByText(/^scripted runs chatty on (one|two);/).waitFor()
    await inUse
      .getByRole('list', { name: 'Replicas' })
      .getByText(/^chatty on (one|two)$/)
      .waitFor()
    expect(await remove.getByRole('button', { name: 'Delete scripted' }).isDisabled()).toBe(true)
    await inUse.getByRole('checkbox', { name: 'Delete anyway' }).check()
    await remove.getByText(/^chatty \(1 replica on (one|two)\) stops/).waitFor()
    expect(await countOperations()).toBe(before)
    await remove.getByRole('button', { name: 'Delete scripted from 2 nodes' }).click()
    await closeDrawer()
    await installed('scripted').waitFor({ state: 'detached', timeout: 30_000 })
    await installed('typed').waitFor()
    await waitFor(async () => (await world.backendProcesses()).length === 0, { what: 'the model to end' })
    expect(visitor.problems()).toEqual([])
  })

  it('shows the server’s message about an unreachable source, and queues nothing', async () => {
    const before = await countOperations()
    await visitor.goto('/backends?tab=gallery&act=install&backend=lost')
    const install = sheet('Install lost')
    await refusal(install).waitFor({ timeout: 60_000 })
    expect(await install.getByRole('button', { name: 'Install lost' }).isDisabled()).toBe(true)
    await visitor.goto('/backends?tab=gallery&act=install&backend=scripted')
    const later = sheet('Install scripted')
    await later.getByRole('radio', { name: 'Selected nodes' }).check()
    await later.getByRole('checkbox', { name: 'one' }).check()
    await later.getByRole('button', { name: 'Install scripted on 1 node' }).waitFor()
    await world.registry.kill()
    await later.getByRole('button', { name: 'Install scripted on 1 node' }).click()
    await refusal(later).waitFor({ timeout: 60_000 })
    expect(await later.getByRole('checkbox', { name: 'one' }).isChecked()).toBe(true)
    expect(await countOperations()).toBe(before)
    expect(visitor.problems()).toEqual([])
  })
})

/** Presses Tab until the element with this name has the focus. */
async function tabTo(name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    const focused = page.locator(':focus')
    const names = (await focused.count()) === 0 ? [] : [await focused.first().ariaSnapshot()]
    if (names.some((each) => each.includes(`"${name}"`))) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`nothing with the name ${name} takes the focus`)
}
