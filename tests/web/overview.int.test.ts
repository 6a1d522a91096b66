// The first minute in the browser: `muster up` on an empty directory, the login link, the first message to a model whose
// backend is not installed, and the overview after it.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createApiClient,
  createProcesses,
  freePort,
  makeTempDir,
  waitFor,
  type ApiClient,
  type Processes,
  type TempDir,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { visitWeb, type WebVisitor } from './web-world.ts'

const processes: Processes = createProcesses()
let directory: TempDir
let api: ApiClient
let visitor: WebVisitor

beforeAll(async () => {
  directory = await makeTempDir('up-web')
  const port = await freePort()
  const dataDir = join(directory.path, 'data')
  const up = await processes.muster(['up', '--port', String(port), '--data-dir', dataDir])
  await up.waitForOutput(/curl/)
  api = createApiClient(`http://127.0.0.1:${port}`, (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim())
  await waitFor(async () => (await api.get('/readyz').catch(() => null))?.status === 200, { what: 'the controller' })
  visitor = await visitWeb({ api })
}, 240_000)
afterAll(async () => {
  await visitor?.[Symbol.asyncDispose]()
  await processes.stopAll()
  await directory[Symbol.asyncDispose]()
})

describe('the first minute in the browser', { timeout: 120_000 }, () => {
  it('starts with the next step', async () => {
    const { page } = visitor
    await page.getByText('1 node, healthy. No models loaded. No requests in the last minute.').waitFor()
    await page.getByText('Nothing needs attention.').waitFor()
    const first = page.getByRole('region', { name: 'No requests in the last hour' })
    expect(await first.getByLabel('first request as curl', { exact: true }).innerText()).toContain('/v1/chat/completions')
    expect(visitor.problems()).toEqual([])
  })

  it('leads to the first response, of a model whose backend is not installed', async () => {
    const { page } = visitor
    await page.getByRole('main').getByRole('link', { name: 'playground', exact: true }).click()
    await page.getByText('Parameters').click()
    await page.getByLabel('Temperature').fill('0')
    await page.getByRole('textbox', { name: 'Message' }).fill('What is the capital of France?')
    await page.keyboard.press('Enter')
    const response = page.getByRole('article', { name: 'Response 1' })
    await response.getByRole('group', { name: 'Loading tiny' }).waitFor()
    await response.getByRole('note', { name: 'Statistics' }).waitFor({ timeout: 100_000 })
    expect(await response.locator('[data-answer]').innerText()).toBe('The capital of France is Paris.')
    expect(visitor.problems()).toEqual([])
  })

  it('shows the traffic on the overview without a reload', async () => {
    const { page } = visitor
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Overview' }).click()
    await page.getByText('1 of 1 replica ready.').waitFor()
    await page.getByRole('img', { name: /^Tokens per second/ }).waitFor({ timeout: 60_000 })
    await page.getByText(/0\.02 requests\/s, 0\.2 tokens\/s and no errors in the last minute/).waitFor({ timeout: 60_000 })
    expect(visitor.problems()).toEqual([])
  })
})
