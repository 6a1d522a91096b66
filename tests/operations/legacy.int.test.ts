// New and old side by side: workers that know only the original's wire under controllers that know more, and the reverse.
import { createLog, type Log } from '@muster/host'
import { backendInstall, backendList, backendUpgrade, OperationId, opStatus, type CommandReply } from '@muster/protocol'
import { createLegacyController, waitFor, type LegacyWork } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { backendName, createGate } from '../../packages/worker/test/scripted-installer.ts'
import { listed, startOperationsWorld, type OperationsWorld } from './operations-world.ts'

const fallback = 'Falling back to legacy backend.install Force=true (old worker)'
const lines: Record<string, unknown>[] = []
const log: Log = createLog({
  level: 'info',
  format: 'json',
  stream: { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
})

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({
    postgresUrl: inject('postgresUrl'),
    nats: true,
    controllers: 2,
    log,
    flags: { 'backend-install-timeout': '1s', 'backend-upgrade-timeout': '2s', 'op-stall-timeout': '1s', 'reconcile-interval': '1s' },
  })
})
afterAll(() => world[Symbol.asyncDispose]())

/** Work that stands still where a test wants it to. */
function held() {
  const gate = Promise.withResolvers<void>()
  const begun: LegacyWork[] = []
  return {
    begun,
    open: gate.resolve,
    work: async (work: LegacyWork): Promise<void> => {
      begun.push(work)
      await gate.promise
    },
  }
}

/** Controllers know an installed backend once the node has listed it. */
const untilListed = (backend: string, nodeId: string) =>
  waitFor(
    async () => {
      const { body } = await world.api().get(`/api/nodes/${nodeId}/backends`)
      return JSON.stringify(body).includes(`"${backend}"`)
    },
    { what: `${backend} to be listed by ${nodeId}` },
  )

it('S1.13 S1.21 S3.7 an old worker installs, and gets commands of its own protocol: no force', async () => {
  const old = await world.addLegacyWorker('old-plain')
  world.publish('plain', '1.0.0')
  const done = await world.ended(await world.install('plain', { nodes: [old.id] }))
  expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
  expect(old.heard).toMatchObject([{ kind: 'install', request: { backend: 'plain', op_id: done.id } }])
  expect(old.heard[0]?.request).not.toHaveProperty('force')
  await untilListed('plain', old.id)
  const removed = await world.ended(await world.remove('plain', `?node=${old.id}`))
  expect(removed.state).toBe('succeeded')
  expect(old.backends.size).toBe(0)
})

it('S1.9 S1.11 S1.23 S1.25 S3.8 an old worker without upgrades is upgraded by a forced install, each time it is tried', async () => {
  let failures = 1
  const old = await world.addLegacyWorker('old-forced', {
    work: async ({ kind, request }) => {
      if (kind === 'install' && request.force === true && failures-- > 0) throw new Error('the disk hiccuped')
    },
  })
  world.publish('forced', '1.0.0')
  await world.ended(await world.install('forced', { nodes: [old.id] }))
  await untilListed('forced', old.id)
  world.publish('forced', '2.0.0')
  const id = await world.upgrade('forced', { nodes: [old.id] })
  const done = await world.ended(id)
  expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 1 }] })
  expect(old.heard.slice(1)).toMatchObject([
    { kind: 'install', request: { backend: 'forced', force: true, op_id: id } },
    { kind: 'install', request: { backend: 'forced', force: true, op_id: id } },
  ])
  expect(lines.filter(({ msg, op }) => msg === fallback && op === id)).toMatchObject([
    { node: old.id, backend: 'forced' },
    { node: old.id, backend: 'forced' },
  ])
  // Nothing listened for upgrades, and nobody holds that against the node.
  expect((await world.api().get(`/api/nodes/${old.id}`)).body['status']).toBe('healthy')
})

it('S1.9 an old worker that knows upgrades gets one, on its own subject and without force', async () => {
  const old = await world.addLegacyWorker('old-upgrades', { hasUpgrade: true })
  world.publish('split', '1.0.0')
  await world.ended(await world.install('split', { nodes: [old.id] }))
  await untilListed('split', old.id)
  const id = await world.upgrade('split', { nodes: [old.id] })
  expect((await world.ended(id)).state).toBe('succeeded')
  expect(old.heard.map(({ kind }) => kind)).toEqual(['install', 'upgrade'])
  expect(lines.some(({ msg, op }) => msg === fallback && op === id)).toBe(false)
})

it('S1.10 an upgrade that fails is reported unchanged, and not turned into an install', async () => {
  const old = await world.addLegacyWorker('old-failing', {
    hasUpgrade: true,
    work: async ({ kind }) => {
      if (kind === 'upgrade') throw new Error('no such manifest')
    },
  })
  world.publish('broken', '1.0.0')
  await world.ended(await world.install('broken', { nodes: [old.id] }))
  await untilListed('broken', old.id)
  const id = await world.upgrade('broken', { nodes: [old.id] })
  const seen = await world.until(id, 'tried', ({ nodes }) => nodes[0]?.status === 'error')
  expect(seen.nodes[0]).toMatchObject({ status: 'error', error: 'upgrade failed: no such manifest', error_code: 'internal' })
  expect(old.heard.filter(({ kind }) => kind === 'install')).toHaveLength(1)
  await world.api().post(`/api/operations/${id}/cancel`, {})
})

it('S1.25 S0.9 when nothing listens for the forced install either, the node is unhealthy', async () => {
  const node = await world.addWireWorker('deaf', { features: ['async', 'progress', 'upgrade'] })
  node.say({
    type: 'inventory',
    backends: [listed('deaf')],
  })
  world.publish('deaf', '2.0.0')
  await untilListed('deaf', node.id)
  const id = await world.upgrade('deaf', { nodes: [node.id] })
  const seen = await world.until(id, 'tried', ({ nodes }) => nodes[0]?.status === 'error')
  expect(seen.nodes[0]).toMatchObject({ status: 'error', error_code: 'unavailable' })
  await world.untilStatus(node.id, 'unhealthy')
  expect(lines.some(({ msg, op }) => msg === fallback && op === id)).toBe(true)
  // Back for good, by the old subject alone.
  const asked: object[] = []
  node.bus.serve(backendInstall, { node: node.id }, (request) => {
    asked.push(request)
    return { accepted: true as const }
  })
  await world.until(id, 'taken on', ({ nodes }) => nodes[0]?.status === 'downloading')
  expect(asked.at(-1)).toMatchObject({ backend: 'deaf', force: true, async: true })
  await world.untilStatus(node.id, 'healthy')
  const { generation, epoch } = asked.at(-1) as { generation: number; epoch: number }
  node.say({ type: 'op.result', op_id: OperationId.parse(id), state: 'succeeded', generation, epoch })
  expect((await world.ended(id)).state).toBe('succeeded')
})

it('S1.14 clients cannot request force', async () => {
  const old = await world.addLegacyWorker('old-unforced')
  world.publish('unforced', '1.0.0')
  expect(await world.api().post('/api/backends/install', { backend: 'unforced', nodes: [old.id], force: true })).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid', details: { param: 'force' } } },
  })
  await world.ended(await world.install('unforced', { nodes: [old.id] }))
  expect(old.heard).toHaveLength(1)
  expect(old.heard[0]?.request).not.toHaveProperty('force')
})

it('S2.5 S2.6 S2.7 S2.8 S2.9 S2.10 S2.12 S2.13 the request to an old worker times out, and the list brings the end', async () => {
  const slow = held()
  const old = await world.addLegacyWorker('old-slow', { work: slow.work })
  world.publish('slow', '1.0.0')
  const began = performance.now()
  const id = await world.install('slow', { nodes: [old.id] })
  await waitFor(() => slow.begun.length > 0, { what: 'the work to begin' })
  expect((await world.operation(id)).nodes[0]).toMatchObject({ status: 'queued', attempts: 0 })
  const busy = await world.until(id, 'shown as busy', ({ nodes }) => nodes[0]?.status === 'running_on_worker')
  expect(performance.now() - began).toBeGreaterThan(900)
  expect(busy).toMatchObject({ state: 'background', nodes: [{ attempts: 0, dead: false, error: null, next_retry_at: null }] })
  expect(busy.message).toContain('worker still installing in background')
  expect(busy.nodes[0]?.message).toContain('worker still installing in background')
  // Several timeouts, retries and stall windows later: it is still one intent, with no attempt counted.
  await waitFor(() => old.heard.length >= 3, { what: 'to be asked again' })
  expect((await world.operation(id)).nodes[0]).toMatchObject({ status: 'running_on_worker', attempts: 0 })
  slow.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success', attempts: 0 }] })
})

it('S2.5 an upgrade has its own timeout', async () => {
  const slow = held()
  const old = await world.addLegacyWorker('old-slow-upgrade', {
    hasUpgrade: true,
    work: async (work) => (work.kind === 'upgrade' ? slow.work(work) : undefined),
  })
  world.publish('slow-upgrade', '1.0.0')
  await world.ended(await world.install('slow-upgrade', { nodes: [old.id] }))
  await untilListed('slow-upgrade', old.id)
  const id = await world.upgrade('slow-upgrade', { nodes: [old.id] })
  await waitFor(() => slow.begun.length > 0, { what: 'the work to begin' })
  const began = performance.now()
  await world.until(id, 'shown as busy', ({ nodes }) => nodes[0]?.status === 'running_on_worker')
  expect(performance.now() - began).toBeGreaterThan(1_800)
  slow.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
})

it('S2.27 an old worker with progress shows it, one without is green all the same', async () => {
  const slow = held()
  const telling = await world.addLegacyWorker('old-telling', {
    hasProgress: true,
    work: async (work) => {
      work.tick(40, 'layer-1')
      await slow.work(work)
    },
  })
  const silent = await world.addLegacyWorker('old-silent', { work: slow.work })
  world.publish('told', '1.0.0')
  const id = await world.install('told', { nodes: [telling.id, silent.id] })
  const seen = await world.until(id, 'told of', ({ nodes }) => nodes.some(({ percentage }) => percentage === 40))
  expect(seen.nodes.find(({ node_id }) => node_id === telling.id)).toMatchObject({ file_name: 'layer-1', phase: 'downloading' })
  slow.open()
  expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ percentage: 100 }, { percentage: 100 }] })
})

it('S1.12 S1.13 an old controller drives a new worker, beside new ones', async () => {
  const worker = await world.addWorker('new-worker')
  const legacy = createLegacyController({ bus: world.bus, nodeId: worker.id, timeoutMs: 60_000 })
  expect(await legacy.install({ backend: 'both', uri: 'oci://example.com/both:1' })).toEqual({ success: true })
  expect(await legacy.install({ backend: 'both', uri: 'oci://example.com/both:1', force: true })).toEqual({ success: true })
  expect(await legacy.upgrade({ backend: 'both', uri: 'oci://example.com/both:1' })).toEqual({ success: true })
  expect(worker.installer.calls.map(({ request }) => request?.mode)).toEqual(['install', 'reinstall', 'upgrade'])
  await untilListed('both', worker.id)
  // A new controller takes over what the old one has left.
  const digest = world.publish('both', '2.0.0')
  expect((await world.ended(await world.upgrade('both', { nodes: [worker.id] }))).state).toBe('succeeded')
  expect(worker.installer.installed.get(backendName('both'))?.digest).toBe(digest)
  expect(await legacy.remove('both')).toEqual({ success: true })
  expect(await legacy.list()).toEqual([])
})

it('S1.13 S1.20 new and new: accepted at once, and the end comes by event', async () => {
  const worker = await world.addWorker('newest')
  const gate = createGate()
  worker.installer.script.set(backendName('fresh'), gate.behaviour)
  world.publish('fresh', '1.0.0')
  const id = await world.install('fresh', { nodes: [worker.id] })
  await world.until(id, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  const status = await world.bus.request(opStatus, { node: worker.id }, { op_id: OperationId.parse(id) }, { timeoutMs: 60_000 })
  expect(status).toMatchObject({ state: 'running' })
  gate.open()
  expect((await world.ended(id)).state).toBe('succeeded')
  const second = world.publish('fresh', '2.0.0')
  const upgraded = await world.upgrade('fresh', { nodes: [worker.id] })
  expect((await world.ended(upgraded)).state).toBe('succeeded')
  expect(worker.installer.installed.get(backendName('fresh'))?.digest).toBe(second)
  expect(worker.installer.calls.map(({ request }) => request?.mode)).toEqual(['install', 'upgrade'])
  // A worker that was older at its first try: the retry goes by the same path, its own subject first.
  const wire = await world.addWireWorker('wire-upgrade')
  // A query without responders would make the node unhealthy for a minute.
  wire.bus.serve(backendList, { node: wire.id }, () => ({ backends: [listed('fresh')] }))
  wire.say({
    type: 'inventory',
    backends: [listed('fresh')],
  })
  await waitFor(async () => JSON.stringify((await world.api().get(`/api/nodes/${wire.id}/backends`)).body).includes('fresh'), {
    what: 'the inventory',
  })
  const tries: number[] = []
  wire.bus.serve(backendUpgrade, { node: wire.id }, ({ epoch = 0 }): CommandReply => {
    tries.push(epoch)
    if (tries.length === 1) return { accepted: false, failure: { code: 'unavailable', retry: 'backoff', message: 'busy' } }
    return { success: true }
  })
  const retried = await world.ended(await world.upgrade('fresh', { nodes: [wire.id] }))
  expect(retried).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 1 }] })
  expect(tries).toHaveLength(2)
})
