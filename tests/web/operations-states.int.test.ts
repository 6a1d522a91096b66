// Every state of an operation in the browser, on scripted workers.
import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { openBrowser } from '@muster/testkit'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendName, createGate, failing, type Gate } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker } from '../operations/operations-world.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

const ending = new AsyncDisposableStack()
let world: OperationsWorld
let browser: Browser
let [one, two]: [ScriptedWorker, ScriptedWorker] = [undefined as never, undefined as never]

beforeAll(async () => {
  const models = await serveModels()
  browser = ending.use(await openBrowser())
  world = ending.use(
    await startOperationsWorld({
      postgresUrl: inject('postgresUrl'),
      // No round of the reconciler and no automatic retry interferes.
      flags: {
        'op-retry-base': '1h',
        'op-retry-max': '1h',
        'backend-install-timeout': '6s',
        'reconcile-interval': '10m',
        'model-gallery': `models=${models}`,
      },
    }),
  )
  ;[one, two] = await Promise.all([world.addWorker('one'), world.addWorker('two')])
})
afterAll(() => ending.disposeAsync())

/** A model whose file cannot be downloaded: its install runs until it is cancelled. */
async function serveModels(): Promise<string> {
  const text = '- { name: small, config: { backend: llama }, files: [{ uri: "https://h.example/small.gguf", filename: small.gguf }] }'
  const server = createServer((_, response) => void response.end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ending.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return `http://127.0.0.1:${address.port}/index.yaml`
}
const visit = (path: string): Promise<WebVisitor> => visitWeb({ api: world.api() }, { path, browser })
/** Opens the drawer from the operation's card. */
const open = (page: Page, title: string): Promise<void> =>
  page.getByRole('article', { name: title }).getByRole('link', { name: title }).click()
/** Both workers start the install and wait until the gate opens. */
function hold(backend: string): Gate {
  const gate = createGate()
  for (const { installer } of [one, two]) installer.script.set(backendName(backend), gate.behaviour)
  world.publish(backend, '1.0.0')
  return gate
}
const row = (page: Page, name: string) => page.getByRole('dialog').getByRole('listitem', { name })

describe('an operation', () => {
  it('S2.39 S2.15 whose worker takes long is shown as busy with the reason, and as done at once when it ends', async () => {
    const gate = hold('long')
    await using visitor = await visit('/operations')
    const { page, problems } = visitor
    await world.install('long')
    await open(page, 'Install long')
    const pill = row(page, 'one').getByText('Worker busy', { exact: true })
    await pill.waitFor()
    const title = await row(page, 'one').locator('[title*="longer than its timeout"]').getAttribute('title')
    expect(title).toContain('No action needed')
    // Also without hovering.
    expect(await row(page, 'one').getByText('running longer than its timeout; no action needed').isVisible()).toBe(true)
    await page.getByText('In the background', { exact: true }).first().waitFor()
    gate.open()
    await row(page, 'one').getByText('Done').waitFor({ timeout: 10_000 })
    await row(page, 'two').getByText('Done').waitFor({ timeout: 10_000 })
    // The strip shows it for a few seconds.
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: /^Install long · done/ }).waitFor()
    await page.getByText('No operations running').first().waitFor({ timeout: 15_000 })
    expect(problems()).toEqual([])
  })

  it('S2.43 that failed on a node is retried there by its button', async () => {
    const failure = { code: 'not_found', retry: 'never', message: 'no such tag' } as const
    world.publish('picky', '1.0.0')
    two.installer.script.set(backendName('picky'), failing(failure))
    const id = await world.install('picky')
    await using visitor = await visit(`/operations?tab=history&op=${id}`)
    const { page, problems } = visitor
    await row(page, 'two').getByText('Failed', { exact: true }).waitFor()
    await row(page, 'two').getByText('no such tag (not_found)').waitFor()
    expect(await row(page, 'one').getByRole('button', { name: /Retry/ }).count()).toBe(0)
    two.installer.script.delete(backendName('picky'))
    await page.getByRole('button', { name: 'Retry on two' }).click()
    await row(page, 'two').getByText('Done').waitFor()
    expect(await page.getByRole('button', { name: /Retry/ }).count()).toBe(0)
    expect((await world.operation(id)).state).toBe('succeeded')
    expect(problems()).toEqual([])
  })

  it('S2.39 S2.40 lists its nodes in the strip and on the page, collapsed at first and after a reload', async () => {
    const gate = hold('held')
    await using visitor = await visit('/operations')
    const { page, problems } = visitor
    await world.install('held')
    const strip = page.getByRole('region', { name: 'Running operations' })
    await strip.getByText('Install held → 0 of 2 nodes').waitFor()
    const card = page.getByRole('article', { name: 'Install held' })
    for (const container of [strip, card]) {
      const nodes = container.getByRole('button', { name: '2 nodes of Install held' })
      expect(await nodes.getAttribute('aria-expanded')).toBe('false')
      expect(await container.getByRole('listitem').count()).toBe(0)
      await nodes.click()
      await container.getByRole('listitem', { name: 'one' }).waitFor()
      expect(await container.getByRole('listitem').count()).toBe(2)
    }
    await page.reload()
    await card.getByRole('button', { name: '2 nodes of Install held' }).waitFor()
    expect(await page.getByRole('listitem', { name: 'one' }).count()).toBe(0)
    gate.open()
    await page.getByText('No operations running.').first().waitFor()
    await page.getByRole('link', { name: 'History' }).click()
    await card.getByText('Done', { exact: true }).waitFor()
    expect(problems()).toEqual([])
  })

  it('S2.40 without nodes has no list, and can be cancelled', async () => {
    const answer = await world.api().post('/api/models/install', { model: 'small' })
    expect(answer.status).toBe(202)
    await using visitor = await visit('/operations')
    const { page, problems } = visitor
    const card = page.getByRole('article', { name: 'Install model small' })
    await card.waitFor()
    const strip = page.getByRole('region', { name: 'Running operations' })
    await strip.getByRole('link', { name: /^Install model small/ }).waitFor()
    expect(await page.getByRole('button', { name: /nodes? of/ }).count()).toBe(0)
    await card.getByRole('link', { name: 'Install model small' }).click()
    const drawer = page.getByRole('dialog', { name: /^Install model small · started/ })
    await drawer.getByRole('button', { name: 'Cancel Install model small' }).click()
    await page.getByRole('button', { name: 'Cancel operation' }).click()
    await drawer.getByText('Cancelled', { exact: true }).waitFor()
    expect(await drawer.getByRole('button', { name: /^Cancel/ }).count()).toBe(0)
    expect(problems()).toEqual([])
  })

  it('S0.20 that deletes a backend has the same drawer', async () => {
    world.publish('unwanted', '1.0.0')
    await world.ended(await world.install('unwanted'))
    const gate = createGate()
    for (const { installer } of [one, two]) installer.script.set(backendName('unwanted'), gate.behaviour)
    await using visitor = await visit('/operations')
    const { page, problems } = visitor
    await world.remove('unwanted')
    await open(page, 'Delete unwanted')
    await page.getByRole('dialog', { name: /^Delete unwanted · started/ }).waitFor()
    for (const name of ['one', 'two']) await row(page, name).getByText('Deleting').waitFor()
    gate.open()
    for (const name of ['one', 'two']) await row(page, name).getByText('Done').waitFor()
    expect(problems()).toEqual([])
  })

  it('is cancelled after a confirmation, and each node shows it', async () => {
    hold('unloved')
    await using visitor = await visit('/operations')
    const { page, problems } = visitor
    const id = await world.install('unloved')
    await open(page, 'Install unloved')
    await row(page, 'two').getByText('Downloading', { exact: true }).waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel Install unloved' }).click()
    await page.getByText('aborts running work').waitFor()
    await page.getByRole('button', { name: 'Keep running' }).click()
    expect((await world.operation(id)).nodes.every(({ message }) => message !== 'cancelling')).toBe(true)
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel Install unloved' }).click()
    await page.getByRole('button', { name: 'Cancel operation' }).click()
    for (const name of ['one', 'two']) await row(page, name).getByText('Cancelled', { exact: true }).waitFor()
    expect((await world.operation(id)).state).toBe('cancelled')
    expect(problems()).toEqual([])
  })

  it('that does not exist is shown as not found; an empty search can be reset', async () => {
    await using visitor = await visit('/operations?op=op-neverwas')
    const { page, problems } = visitor
    await page.getByRole('dialog', { name: 'Operation not found' }).waitFor()
    await page.keyboard.press('Escape')
    expect(new URL(page.url()).searchParams.has('op')).toBe(false)
    await page.getByRole('link', { name: 'History' }).click()
    await page.getByRole('article', { name: 'Delete unwanted' }).waitFor()
    await page.getByLabel('Kind').selectOption('backend.delete')
    await page.getByRole('article', { name: 'Install unwanted' }).waitFor({ state: 'detached' })
    await page.getByLabel('Search operations').fill('xyzzy')
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByRole('article', { name: 'Install unwanted' }).waitFor()
    expect(problems()).toEqual([])
  })
})

describe('an administrator', () => {
  it('pauses an operation, resumes it, tries a node now, and dismisses the result', async () => {
    const away = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' } as const
    const gate = createGate()
    world.publish('steered', '1.0.0')
    one.installer.script.set(backendName('steered'), gate.behaviour)
    two.installer.script.set(backendName('steered'), failing(away))
    const id = await world.install('steered')
    await using visitor = await visit(`/operations?op=${id}`)
    const { page, problems } = visitor
    const drawer = page.getByRole('dialog')
    await row(page, 'two').getByText('Failed', { exact: true }).waitFor()
    await drawer.getByRole('button', { name: 'Pause Install steered' }).click()
    await drawer.getByRole('button', { name: 'Resume Install steered' }).waitFor()
    await row(page, 'two').getByText('Paused', { exact: true }).waitFor()
    expect(await page.getByRole('button', { name: 'Try now on two' }).count()).toBe(0)
    gate.open()
    await drawer.getByText('Paused', { exact: true }).first().waitFor()
    await drawer.getByText('paused; 1 of 2 nodes done').waitFor()

    await drawer.getByRole('button', { name: 'Resume Install steered' }).click()
    await page.getByRole('button', { name: 'Try now on two' }).waitFor()
    two.installer.script.delete(backendName('steered'))
    await page.getByRole('button', { name: 'Try now on two' }).click()
    await row(page, 'two').getByText('Done').waitFor()

    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'History' }).click()
    const card = page.getByRole('article', { name: 'Install steered' })
    await card.getByRole('button', { name: 'Dismiss Install steered' }).click()
    await card.waitFor({ state: 'detached' })
    expect((await world.operation(id)).dismissed_at).toBeDefined()
    expect(problems()).toEqual([])
  })
})
