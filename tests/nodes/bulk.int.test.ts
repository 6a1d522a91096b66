// Actions on many nodes over the API of two controllers, the command line and the browser: 50 whole workers.
import { join } from 'node:path'
import {
  adminKey,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
  type ApiClient,
  type SeenNode,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { visitWeb } from '../web/web-world.ts'

const fleetSize = 50
const processes = createProcesses()
const endings: (() => Promise<unknown>)[] = [() => processes.stopAll()]
let apis: ApiClient[] = []

beforeAll(async () => {
  const directory = await makeTempDir('bulk')
  const nats = await startNats()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  endings.push(
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  const { controllers } = await startCluster({
    ...{ processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, controllers: 2 },
    args: ['--heartbeat-interval', '1s'],
  })
  apis = controllers.map(({ api }) => api)
  await processes.start('node', {
    args: [
      join(import.meta.dirname, '../../packages/testkit/src/many-workers.ts'),
      ...['--join', api().url, '--count', String(fleetSize), '--directory', directory.path],
    ],
    env: { MUSTER_TOKEN: joinToken },
  })
  await untilAll('pending')
})
afterAll(async () => {
  for (const end of endings) await end()
})

const api = (index = 0): ApiClient => apis[index] as ApiClient
const nodes = (): Promise<SeenNode[]> => nodesOf(api())
async function untilAll(status: string): Promise<void> {
  await waitFor(async () => (await nodes()).filter((node) => node.status === status).length === fleetSize, {
    what: `all ${fleetSize} nodes to be ${status}`,
  })
}
const act = async (body: object, headers: Record<string, string> = {}) => await api().post('/api/nodes/actions', body, { headers })
const outcomes = (answer: { body: Record<string, unknown> }): Record<string, number> => {
  const results = answer.body['results'] as { outcome: string }[]
  return Object.fromEntries([...Map.groupBy(results, ({ outcome }) => outcome)].map(([outcome, all]) => [outcome, all.length]))
}
async function muster(...args: string[]): Promise<{ code: number | null; output: string }> {
  const cli = await processes.muster(args, { env: { MUSTER_URL: api(1).url, MUSTER_ADMIN_KEY: adminKey } })
  const { code } = await cli.exited
  return { code, output: cli.output() }
}

describe(`actions on ${fleetSize} nodes`, () => {
  it('approve all of them, and one that does not exist fails alone', async () => {
    const ids = (await nodes()).map(({ id }) => id)
    const answer = await act({ action: 'approve', nodes: [...ids, 'n-nobody'] })
    expect(answer.status).toBe(200)
    expect(outcomes(answer)).toEqual({ done: fleetSize, failed: 1 })
    await untilAll('healthy')
    expect(outcomes(await act({ action: 'approve', nodes: ids }))).toEqual({ unchanged: fleetSize })
  })

  it('are safe to repeat with their key, and the key refuses another request', async () => {
    const headers = { 'idempotency-key': 'bulk-1' }
    const body = { action: 'label', selector: { 'node.name': ['many-0000', 'many-0001'] }, labels: { rack: 'b2' } }
    const first = await act(body, headers)
    expect(outcomes(first)).toEqual({ done: 2 })
    expect((await act(body, headers)).body).toEqual(first.body)
    expect((await act({ ...body, labels: { rack: 'b3' } }, headers)).status).toBe(422)
  })

  it('change nothing without a match, without a number, or in a dry run', async () => {
    expect(await act({ action: 'drain', selector: { rack: 'nowhere' } })).toMatchObject({
      ...{ status: 404, body: { error: { code: 'no_match', message: expect.stringContaining('matches no node') as string } } },
    })
    const selector = { rack: 'b2' }
    expect(await act({ action: 'remove', selector })).toMatchObject({
      status: 409,
      body: { error: { code: 'not_confirmed', details: { count: 2 } } },
    })
    expect((await act({ action: 'remove', selector, confirm: 1 })).status).toBe(409)
    expect(outcomes(await act({ action: 'remove', selector, dry_run: true }))).toEqual({ done: 2 })
    expect((await act({ action: 'drain', selector, force: true })).text).toContain('unknown field \\"force\\"')
    expect(await nodes()).toHaveLength(fleetSize)
  })

  it('are commands too: label, drain and resume by selector, by name and all', async () => {
    expect(await muster('nodes', 'label', '--all', 'row=one')).toMatchObject({
      code: 0,
      output: expect.stringContaining(`${fleetSize} done`) as string,
    })
    const drained = await muster('nodes', 'drain', '--selector', 'row=one')
    expect(drained).toMatchObject({ code: 0, output: expect.stringContaining(`${fleetSize} done`) as string })
    await untilAll('draining')
    expect(await muster('nodes', 'resume', 'many-0003', 'many-0004')).toMatchObject({
      code: 0,
      output: expect.stringContaining('2 done') as string,
    })
    expect((await muster('nodes', 'resume', '--all')).output).toContain(`${fleetSize - 2} done, 2 unchanged`)
    await untilAll('healthy')
    expect(await muster('nodes', 'drain', '--selector', 'row=two')).toMatchObject({
      code: 1,
      output: expect.stringContaining('matches no node') as string,
    })
    expect(await muster('nodes', 'rm', '--selector', 'rack=b2')).toMatchObject({
      code: 2,
      output: expect.stringContaining('--yes') as string,
    })
  })

  it('are done in the browser: selected, confirmed with a list, and shown with their results', async () => {
    await using visitor = await visitWeb({ api: api() }, { path: '/nodes' })
    const { page } = visitor
    await page.getByRole('checkbox', { name: 'Select many-0007' }).check()
    const bar = page.getByRole('toolbar', { name: 'Actions for the selected nodes' })
    await bar.getByText('1 node selected').waitFor()
    await page.getByRole('checkbox', { name: 'Select all nodes' }).check()
    await bar.getByText(`${fleetSize} nodes selected`).waitFor()
    await page.getByRole('checkbox', { name: 'Select many-0000' }).uncheck()
    await bar.getByText(`${fleetSize - 1} nodes selected`).waitFor()
    await page.reload()
    await bar.getByRole('button', { name: 'Drain…' }).click()
    const sheet = page.getByRole('dialog', { name: `Drain ${fleetSize - 1} nodes?` })
    await sheet.getByText('would be drained').first().waitFor()
    expect(await sheet.getByRole('listitem').count()).toBe(fleetSize - 1)
    expect((await nodes()).filter(({ status }) => status === 'draining')).toEqual([])
    await sheet.getByRole('button', { name: `Drain ${fleetSize - 1} nodes` }).click()
    const results = page.getByRole('dialog', { name: 'Drain: results' })
    await results.getByText(`${fleetSize - 1} done.`).waitFor()
    await results.getByRole('button', { name: 'Close' }).last().click()
    await bar.waitFor({ state: 'detached' })
    expect((await nodes()).filter(({ status }) => status === 'draining')).toHaveLength(fleetSize - 1)
    await page.getByText('safe to switch off.').first().waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('remove nodes by a selector with their number, and by the command line with --yes', async () => {
    expect(outcomes(await act({ action: 'remove', selector: { rack: 'b2' }, confirm: 2 }))).toEqual({ done: 2 })
    const left = (await nodes()).filter(({ status }) => status !== 'pending')
    expect(left).toHaveLength(fleetSize - 2)
    const removed = await muster('nodes', 'rm', '--selector', 'row=one', '--yes')
    expect(removed).toMatchObject({ code: 0, output: expect.stringContaining(`${fleetSize - 2} done`) as string })
    // With a token they join again, as new nodes.
    await untilAll('pending')
  })
})
