// Backends in the browser: what would happen is shown before it does, and what happened without asking again.
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
      { name: 'lost', uri: 'oci://127.0.0.1:9/lost:latest', description: 'Where nobody answers.' },
      { name: 'apples', capabilities: { metal: 'apples-metal' }, license: 'MIT', tags: ['speech'] },
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
/** The nodes below this heading of a preview, with what is said of each but for its bytes. */
const fate = async (of: Locator, name: string): Promise<string[]> =>
  (await of.getByRole('list', { name }).getByRole('listitem').allInnerTexts()).map((text) =>
    text.replace(/\s+[\d.]+ kB$/, '').replace(/\s+/g, ' '),
  )
const installed = (name: string): Locator =>
  page.getByRole('list', { name: 'Installed backends' }).getByRole('article', { name, exact: true })
/** As the server says it: what did not answer, and how. */
const refusal = (of: Locator): Locator => of.getByRole('alert').getByText(/^https?:.*ECONNREFUSED/)
const closeDrawer = async (): Promise<void> => {
  await page.waitForURL(/[?&]op=/)
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}
const countOperations = async (): Promise<number> =>
  ((await world.api.get('/api/operations?state=all')).body['operations'] as unknown as unknown[]).length

describe('backends in the browser', { timeout: 150_000 }, () => {
  it('installs from the gallery on two nodes, and shows before what will happen', async () => {
    await page.getByText('No backend is installed yet.').waitFor()
    await page.getByRole('link', { name: 'Install scripted' }).click()
    const install = sheet('Install scripted')
    await install.getByText(/^2 nodes get it now\. [\d.]+ kB to fetch at most\.$/).waitFor()
    expect(await fate(install, 'Installed now')).toEqual(['one', 'two'])
    await install.getByRole('button', { name: 'Install scripted on 2 nodes' }).click()
    await page.getByText('Install scripted on 2 nodes: begun.').waitFor()
    await closeDrawer()
    await page.getByRole('link', { name: 'Installed' }).click()
    await page.getByText('1 backend on 2 nodes.').waitFor()
    await installed('scripted').getByText('on 2 nodes').click()
    const row = installed('scripted').getByRole('row', { name: 'one' })
    expect(await row.getByRole('cell').nth(1).innerText()).toContain('healthy')
    expect(await row.getByRole('cell').nth(2).innerText()).toBe('1.0.0')
    expect(visitor.problems()).toEqual([])
  })

  it('says which nodes an offer does not fit, and why, and finds it by its words', async () => {
    await visitor.goto('/backends?tab=gallery')
    await page.getByRole('searchbox', { name: 'Search the gallery' }).fill('speech mit')
    await page.getByText(/^1 of \d backends match/).waitFor()
    expect(page.url()).toContain('q=speech')
    const offer = page.getByRole('article', { name: 'apples' })
    await offer.getByText('fits none of 2 nodes').click()
    expect(await offer.getByRole('listitem').innerText()).toMatch(/^one and two: .+/)
    expect(visitor.problems()).toEqual([])
  })

  it('installs from an address on one chosen node, by keys alone', async () => {
    await visitor.goto('/backends?tab=gallery')
    const type = async (label: string, text: string): Promise<void> => {
      await tabTo(label)
      await page.keyboard.type(text)
    }
    await tabTo('Install from an address')
    await page.keyboard.press('Enter')
    const install = sheet('Install from an address')
    await type('Address', `oci://${world.registry.host}/scripted:latest`)
    await type('Name', 'typed')
    await install.getByRole('button', { name: 'Install typed on 2 nodes' }).waitFor()
    await tabTo('On every node that it fits')
    await page.keyboard.press('ArrowDown')
    await install.getByText('Choose at least one node.').first().waitFor()
    expect(await install.getByRole('button', { name: 'Install typed' }).isDisabled()).toBe(true)
    await tabTo('two')
    await page.keyboard.press('Space')
    await install.getByRole('button', { name: 'Install typed on 1 node' }).waitFor()
    expect(await fate(install, 'Installed now')).toEqual(['two'])
    await tabTo('Install typed on 1 node')
    await page.keyboard.press('Enter')
    await closeDrawer()
    await visitor.goto('/backends')
    await installed('typed').getByText('on 1 node').click()
    expect(await installed('typed').getByRole('row').count()).toBe(2)
    await installed('typed').getByRole('row', { name: 'two' }).waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('leaves alone what is there when it is installed on more nodes', async () => {
    await page.getByRole('link', { name: 'Install on more nodes: scripted' }).click()
    const install = sheet('Install scripted')
    await install.getByText('2 nodes have it already.').waitFor()
    expect(await fate(install, 'Already there')).toEqual(['one has 1.0.0', 'two has 1.0.0'])
    await page.keyboard.press('Escape')
    await install.waitFor({ state: 'detached' })
    expect(page.url()).not.toContain('wish')
  })

  it('S3.15 a banner says how many have updates, Upgrade all begins with a notice, and the number falls to 0 by itself', async () => {
    await visitor.goto('/backends')
    const banner = page.getByRole('region', { name: 'Updates' })
    expect(await banner.count()).toBe(0)
    await world.publish('2.0.0')
    await page.getByRole('button', { name: 'Check now' }).click()
    await banner.waitFor()
    const build = 'build [0-9a-f]{8}'
    expect(await banner.getByRole('paragraph').innerText()).toMatch(
      new RegExp(`2 backends have updates: scripted 1.0.0 → ${build}, typed 1.0.0 → ${build}\\.$`),
    )
    await installed('scripted').getByText('update available').waitFor()
    await page.getByRole('navigation', { name: 'Pages' }).getByText('2 can be upgraded').waitFor({ state: 'attached' })
    await banner.getByRole('button', { name: 'Upgrade all' }).click()
    const all = sheet('Upgrade all')
    await all.getByRole('checkbox', { name: /^scripted 1\.0\.0 → build/ }).waitFor()
    expect(await all.getByText('On 2 nodes.').count()).toBe(1)
    await all.getByRole('button', { name: 'Upgrade 2 backends' }).click()
    await page.getByText('Upgrading scripted and typed: begun.').waitFor()
    await banner.waitFor({ state: 'detached', timeout: 60_000 })
    await page.getByText('2 backends on 2 nodes. All are up to date.').waitFor()
    await installed('scripted').getByText('2.0.0', { exact: true }).first().waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('shows an upgrade of what is current as what it is', async () => {
    await page.getByRole('link', { name: 'Upgrade scripted' }).click()
    const upgrade = sheet('Upgrade scripted')
    await upgrade.getByRole('button', { name: 'Verify scripted on 2 nodes' }).waitFor()
    await world.publish('3.0.0')
    await upgrade.getByRole('radio', { name: 'Recreate' }).check()
    await upgrade.getByRole('button', { name: 'Upgrade scripted on 2 nodes' }).waitFor()
    await upgrade.getByRole('radio', { name: 'Rolling' }).check()
    await upgrade.getByRole('textbox', { name: 'First' }).fill('none')
    await upgrade.getByText('A number from 1 to 10,000.').waitFor()
    expect(await upgrade.getByRole('button', { name: /^Upgrade scripted/ }).isDisabled()).toBe(true)
    await page.keyboard.press('Escape')
    expect(visitor.problems()).toEqual([])
  })

  it('does not delete what models run on, unless told to drain them first', async () => {
    await world.putModel('chatty')
    expect((await world.ask('chatty')).status).toBe(200)
    const before = await countOperations()
    await visitor.goto('/backends?wish=delete&backend=scripted')
    const remove = sheet('Delete scripted')
    const inUse = remove.getByRole('region', { name: 'In use' })
    await inUse.getByText(/^scripted runs chatty on (one|two);/).waitFor()
    expect(await inUse.getByRole('list', { name: 'Replicas' }).innerText()).toMatch(/^chatty on (one|two)$/)
    expect(await remove.getByRole('button', { name: 'Delete scripted' }).isDisabled()).toBe(true)
    await inUse.getByRole('checkbox', { name: 'Delete it anyway' }).check()
    await remove.getByText(/^chatty \(1 replica on (one|two)\) stops/).waitFor()
    expect(await countOperations()).toBe(before)
    await remove.getByRole('button', { name: 'Delete scripted from 2 nodes' }).click()
    await closeDrawer()
    await installed('scripted').waitFor({ state: 'detached', timeout: 30_000 })
    await installed('typed').waitFor()
    await waitFor(async () => (await world.backendProcesses()).length === 0, { what: 'the model to end' })
    expect(visitor.problems()).toEqual([])
  })

  it('says in the server’s words that a source can not be reached, and queues nothing', async () => {
    const before = await countOperations()
    await visitor.goto('/backends?tab=gallery&wish=install&backend=lost')
    const install = sheet('Install lost')
    await refusal(install).waitFor({ timeout: 60_000 })
    expect(await install.getByRole('button', { name: 'Install lost' }).isDisabled()).toBe(true)
    await visitor.goto('/backends?tab=gallery&wish=install&backend=scripted')
    const later = sheet('Install scripted')
    await later.getByRole('radio', { name: 'Only on chosen nodes' }).check()
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

/** Presses tab until what has this name has the focus. */
async function tabTo(name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    const focused = page.locator(':focus')
    const names = (await focused.count()) === 0 ? [] : [await focused.first().ariaSnapshot()]
    if (names.some((each) => each.includes(`"${name}"`))) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`nothing with the name ${name} takes the focus`)
}
