// A NATS server that lets in nobody without a token: workers get theirs from the controller, and may do nothing
// but speak for themselves.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connectNats, createNatsConfig, type Bus, type BusError } from '@muster/bus'
import { nodeKeyFromSeed, silentLog, systemClock, type NodeKey } from '@muster/host'
import { backendList, messageCatalogue, formatSubject, heartbeat, NodeId } from '@muster/protocol'
import {
  createNodeCaller,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
  type ApiClient,
  type NatsServer,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

const processes = createProcesses()
let nats: NatsServer
let api: ApiClient
let cluster: Awaited<ReturnType<typeof startCluster>>
const endings: (() => Promise<unknown>)[] = [() => processes.stopAll()]

beforeAll(async () => {
  const directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const { config, accountSeed } = await createNatsConfig()
  await writeFile(join(directory.path, 'nats.conf'), config.replace(/^listen:.*$/m, ''))
  await writeFile(join(directory.path, 'account.seed'), accountSeed)
  nats = await startNats({ args: ['-c', join(directory.path, 'nats.conf')] })
  cluster = await startCluster({
    processes,
    directory: directory.path,
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 2,
    env: { MUSTER_NATS_ACCOUNT_SEED_FILE: join(directory.path, 'account.seed') },
  })
  api = cluster.controllers[0]?.api as ApiClient
  endings.push(
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
})
afterAll(async () => {
  for (const end of endings) await end()
})

const connect = async (credentials: { jwt: string; seed: string } | null, inboxPrefix: string): Promise<Bus> => {
  const bus = await connectNats({ url: nats.url, name: 'test', log: silentLog, clock: systemClock, inboxPrefix, credentials })
  endings.unshift(() => bus.close())
  return bus
}

async function admitted(name: string): Promise<{ id: NodeId; key: NodeKey; jwt: string; incarnation: string; expiresAt: string }> {
  const caller = createNodeCaller(api.url)
  const id = NodeId.parse((await caller.register({ name, token: joinToken })).body['id'])
  await api.post(`/api/nodes/${id}/approve`)
  const { bus } = (await caller.post(`/api/node/${id}/session`, { incarnation: caller.incarnation })).body as unknown as {
    bus: { credentials: string; expires_at: string }
  }
  return { id, key: nodeKeyFromSeed(caller.key.seed), jwt: bus.credentials, incarnation: caller.incarnation, expiresAt: bus.expires_at }
}

describe('a NATS server with credentials', () => {
  it('SEC7 refuses clients without credentials', async () => {
    const stranger = await connect(null, '_INBOX_stranger')
    await expect(stranger.ping(2_000)).rejects.toMatchObject({ code: expect.stringMatching(/disconnected|timeout/) })
    expect(stranger.isConnected()).toBe(false)
  })

  it('SEC5 lets in a worker with the token that it gets after approval; its seed never leaves it', async () => {
    await cluster.startWorker({ name: 'real', join: api.url, token: joinToken })
    const pending = await waitFor(async () => (await nodesOf(api)).find((node) => node.name === 'real'), { what: 'the node to register' })
    await api.post(`/api/nodes/${pending.id}/approve`)
    await waitFor(async () => (await nodesOf(api)).find((node) => node.id === pending.id)?.status === 'healthy', {
      what: 'the node to be healthy',
    })
  })

  it('gives tokens that end within the hour, the same one to every poll', async () => {
    const node = await admitted('token')
    const left = Date.parse(node.expiresAt) - Date.now()
    expect(left).toBeGreaterThan(55 * 60_000)
    expect(left).toBeLessThanOrEqual(60 * 60_000)
  })

  it('SEC6 X6 lets a node publish and receive on its own subjects only', async () => {
    const [mallory, alice] = [await admitted('mallory'), await admitted('alice')]
    const bus = await connect({ jwt: mallory.jwt, seed: mallory.key.seed.reveal() }, `_INBOX_${mallory.id}`)
    const good = await connect({ jwt: alice.jwt, seed: alice.key.seed.reveal() }, `_INBOX_${alice.id}`)
    await waitFor(() => bus.isConnected() && good.isConnected(), { what: 'both to be connected' })

    // Mallory may report for itself. It may neither report for alice nor send commands to alice.
    const beat = (id: NodeId, incarnation: string) => ({
      node_id: id,
      incarnation: incarnation as never,
      seq: 1,
      version: '0',
      resources: {} as never,
    })
    bus.publish(heartbeat, { node: alice.id }, beat(alice.id, alice.incarnation))
    bus.publish(heartbeat, { node: mallory.id }, beat(mallory.id, mallory.incarnation))
    await waitFor(async () => (await nodesOf(api)).find((node) => node.id === mallory.id)?.status === 'healthy', {
      what: 'its own report to count',
    })
    expect((await nodesOf(api)).find((node) => node.id === alice.id)?.status).toBe('unhealthy')

    good.serve(backendList, { node: alice.id }, () => ({ backends: [] }))
    const asked = bus.request(backendList, { node: alice.id }, {}, { timeoutMs: 500 })
    await expect(asked).rejects.toSatisfy((error: BusError) => ['timeout', 'invalid', 'disconnected'].includes(error.code))
  })

  it('SEC6 grants follow the catalogue: no subject of another node, no foreign inbox, no wildcard', async () => {
    const { id, jwt } = await admitted('claims')
    const claims = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()) as {
      sub: string
      nats: { pub: { allow: string[] }; sub: { allow: string[] }; resp: { max: number } }
    }
    const granted = [...claims.nats.pub.allow, ...claims.nats.sub.allow]
    for (const subject of granted) expect(subject).toMatch(new RegExp(`^(nodes\\.${id}\\.|_INBOX_${id}\\.>$)`))
    for (const conversation of Object.values(messageCatalogue)) {
      expect(granted).toContain(formatSubject(conversation, { node: id, op: '*' }))
    }
    expect(claims.nats.resp.max).toBe(1)
    expect(jwt).not.toMatch(/SU[A-Z2-7]{56}/)
  })
})
