// Two controllers, one PostgreSQL, one NATS, workers that come and go: real processes, real signals.
import { join } from 'node:path'
import {
  boundMs,
  adminKey,
  createProcesses,
  createTestDatabase,
  isLongRun,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
  type ApiClient,
  type SeenNode,
  type TempDir,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

/** A long run uses the defaults. */
const nodeTimeoutMs = isLongRun ? 15_000 : 4_000
const timeouts = isLongRun ? [] : ['--heartbeat-interval', '1s', '--node-timeout', '4s']
const processes = createProcesses()
let directory: TempDir
let cluster: Awaited<ReturnType<typeof startCluster>>
let apis: ApiClient[] = []
const endings: (() => Promise<unknown>)[] = [() => processes.stopAll()]

beforeAll(async () => {
  const nats = await startNats()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  directory = await makeTempDir()
  endings.push(
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  cluster = await startCluster({
    processes,
    directory: directory.path,
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 2,
    args: timeouts,
  })
  apis = cluster.controllers.map((controller) => controller.api)
})
afterAll(async () => {
  for (const end of endings) await end()
})

const [first, second] = [() => apis[0] as ApiClient, () => apis[1] as ApiClient]
const seen = async (api: ApiClient, name: string): Promise<SeenNode | undefined> => (await nodesOf(api)).find((node) => node.name === name)
const untilStatus = async (name: string, status: string): Promise<SeenNode> => {
  await waitFor(async () => (await Promise.all(apis.map((api) => seen(api, name)))).every((node) => node?.status === status), {
    what: `${name} to be ${status} on every controller`,
  })
  return (await seen(first(), name)) as SeenNode
}

describe('a fleet', () => {
  it('forms: three workers join, one is approved over HTTP, one by the command line, and both controllers show the same', async () => {
    const workers = ['alpha', 'beta', 'gamma']
    await Promise.all(workers.map((name, i) => cluster.startWorker({ name, join: apis[i % 2]?.url ?? '', token: joinToken })))
    const [alpha, beta] = await Promise.all(workers.map((name) => untilStatus(name, 'pending')))

    expect((await second().post(`/api/nodes/${alpha?.id}/approve`)).status).toBe(200)
    const cli = await processes.muster(['nodes', 'approve', 'beta'], { env: { MUSTER_URL: first().url, MUSTER_ADMIN_KEY: adminKey } })
    expect(await cli.exited, cli.output()).toMatchObject({ code: 0 })
    await untilStatus('alpha', 'healthy')
    await untilStatus('beta', 'healthy')
    expect((await seen(second(), 'gamma'))?.status).toBe('pending')
    expect(beta?.id).toMatch(/^[a-z0-9-]{1,63}$/)

    const facts = async (api: ApiClient) =>
      (await nodesOf(api)).map(({ id, name, status, status_reason }) => ({ id, name, status, status_reason }))
    expect(await facts(first())).toEqual(await facts(second()))
  })

  it('misses a worker that was killed: not before the node timeout since its last heartbeat, and soon after', async () => {
    const worker = await cluster.startWorker({ name: 'delta', join: first().url, token: joinToken })
    const { id } = await untilStatus('delta', 'pending')
    await first().post(`/api/nodes/${id}/approve`)
    await untilStatus('delta', 'healthy')

    worker.kill('SIGKILL')
    const killedAt = Date.now()
    await worker.exited
    const gone = await untilStatus('delta', 'unhealthy')
    expect(Date.now() - killedAt).toBeLessThan(boundMs(nodeTimeoutMs + 5_000))
    expect(Date.now() - Date.parse(gone.last_seen_at ?? '')).toBeGreaterThan(nodeTimeoutMs)
    expect(gone.status_reason).toMatch(/no heartbeat/)

    const back = Date.now()
    await cluster.startWorker({ name: 'delta', join: second().url })
    const again = await untilStatus('delta', 'healthy')
    expect(Date.now() - back).toBeLessThan(boundMs(5_000))
    expect(again.id).toBe(id)
  })

  it('knows a goodbye: a worker that is stopped is offline at once, and returns without approval', async () => {
    const worker = await cluster.startWorker({ name: 'epsilon', join: first().url, token: joinToken })
    const { id } = await untilStatus('epsilon', 'pending')
    await second().post(`/api/nodes/${id}/approve`)
    await untilStatus('epsilon', 'healthy')
    expect(await worker.stop()).toMatchObject({ code: 0 })
    expect((await untilStatus('epsilon', 'offline')).status_reason).toMatch(/stopped/)
    await cluster.startWorker({ name: 'epsilon', join: first().url })
    expect((await untilStatus('epsilon', 'healthy')).id).toBe(id)
  })

  it('keeps a drain through a goodbye and a restart', async () => {
    const worker = await cluster.startWorker({ name: 'iota', join: first().url, token: joinToken })
    const { id } = await untilStatus('iota', 'pending')
    await first().post(`/api/nodes/${id}/approve`)
    await untilStatus('iota', 'healthy')
    await first().post(`/api/nodes/${id}/drain`)
    await untilStatus('iota', 'draining')
    await worker.stop()
    await untilStatus('iota', 'offline')
    expect((await first().get(`/api/nodes/${id}`)).body).toMatchObject({ draining: true })
    await cluster.startWorker({ name: 'iota', join: first().url })
    await untilStatus('iota', 'draining')
    await second().post(`/api/nodes/${id}/resume`)
    await untilStatus('iota', 'healthy')
  })

  it('W23 a deleted node with a token joins as a new pending node; without one it exits and names the command to run', async () => {
    const withToken = await cluster.startWorker({ name: 'zeta', join: first().url, token: joinToken })
    const { id } = await untilStatus('zeta', 'pending')
    await first().post(`/api/nodes/${id}/approve`)
    await untilStatus('zeta', 'healthy')
    expect((await second().delete(`/api/nodes/${id}`)).status).toBe(204)
    expect((await untilStatus('zeta', 'pending')).id).not.toBe(id)
    await withToken.stop()

    const fresh = (await seen(first(), 'zeta')) as SeenNode
    await first().post(`/api/nodes/${fresh.id}/approve`)
    const withoutToken = await cluster.startWorker({ name: 'zeta', join: first().url })
    await untilStatus('zeta', 'healthy')
    await first().delete(`/api/nodes/${fresh.id}`)
    expect(await withoutToken.exited).toMatchObject({ code: 1 })
    expect(withoutToken.output()).toMatch(/muster worker --join .* --token/)
  })

  it('takes agent nodes, which have no backends, and which come back as they were with nothing given', async () => {
    const worker = await cluster.startWorker({
      name: 'eta',
      join: first().url,
      token: joinToken,
      args: ['--type', 'agent', '--labels', 'team=red,rack=7'],
    })
    const { id } = await untilStatus('eta', 'pending')
    await first().post(`/api/nodes/${id}/approve`)
    await untilStatus('eta', 'healthy')
    const asItWas = { node_type: 'agent', labels: { team: 'red', rack: '7', 'node.name': 'eta', 'node.os': 'linux' } }
    expect((await first().get(`/api/nodes/${id}`)).body).toMatchObject(asItWas)
    expect((await first().get(`/api/nodes/${id}/backends`)).body).toEqual({ backends: [] })

    await worker.stop()
    await untilStatus('eta', 'offline')
    const restart = (...args: string[]) => processes.muster(['worker', '--data-dir', join(directory.path, 'worker-eta'), ...args])
    const again = await restart()
    await untilStatus('eta', 'healthy')
    expect((await first().get(`/api/nodes/${id}`)).body).toMatchObject(asItWas)

    await first().patch(`/api/nodes/${id}/labels`, { team: 'blue' })
    await again.stop()
    await untilStatus('eta', 'offline')
    const changed = await restart('--labels', 'team=green,rack=8', '--vram-budget', '50%', '--max-replicas-per-model', '1')
    await untilStatus('eta', 'healthy')
    // An administrator's value of a label wins.
    const ofLaterStart = { labels: { team: 'blue', rack: '8' }, resources: { vram_budget: '50%', max_replicas_per_model: 1 } }
    const inEffect = { vram_budget: { value: '50%', from: 'worker' }, max_replicas_per_model: { value: 1, from: 'worker' } }
    await waitFor(
      async () => {
        expect((await first().get(`/api/nodes/${id}`)).body).toMatchObject({ ...ofLaterStart, limits: inEffect })
        return true
      },
      { what: 'the labels and limits of the later start' },
    )
    await first().delete(`/api/nodes/${id}/labels/team`)

    await changed.stop()
    await untilStatus('eta', 'offline')
    await restart('--labels', '')
    await untilStatus('eta', 'healthy')
    const { body } = await first().get(`/api/nodes/${id}`)
    expect(body).toMatchObject({ node_type: 'agent', labels: { 'node.name': 'eta' } })
    expect(body['labels']).not.toHaveProperty('team')
  })

  it('refuses a second worker on the same data directory, naming the process that holds it', async () => {
    const twin = await cluster.startWorker({ name: 'theta', join: first().url, token: joinToken })
    await untilStatus('theta', 'pending')
    const other = await cluster.startWorker({ name: 'theta', join: first().url })
    expect(await other.exited).toMatchObject({ code: 1 })
    expect(other.output()).toMatch(new RegExp(`in use.*${twin.pid}|${twin.pid}.*in use`, 's'))
    expect(twin.hasExited()).toBe(false)
  })
})
