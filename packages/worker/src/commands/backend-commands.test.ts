import {
  backendDelete,
  backendInstall,
  backendList,
  backendStop,
  backendUpgrade,
  opCancel,
  opStatus,
  Phase,
  Progress,
  type Failure,
} from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { nodeId, soon, startOperations, to, type OperationsWorld, type WorldOptions } from '../../test/operations-world.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { backendName, createGate, createScriptedInstaller, digestOf, failing, type Behaviour } from '../../test/scripted-installer.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})

async function world(options: Partial<WorldOptions> = {}) {
  const installer = createScriptedInstaller()
  const node = await startOperations({ installer, ...options })
  cleanup.push(async () => node[Symbol.asyncDispose]())
  return { installer, ...node, ...askers(node) }
}
function askers({ bus }: OperationsWorld) {
  return {
    install: (body: object) => bus.request(backendInstall, to, body as never, soon),
    upgrade: (body: object) => bus.request(backendUpgrade, to, body as never, soon),
    remove: (body: object) => bus.request(backendDelete, to, body as never, soon),
    status: (op_id: string) => bus.request(opStatus, to, { op_id }, soon),
    cancel: (op_id: string) => bus.request(opCancel, to, { op_id }, soon),
    list: () => bus.request(backendList, to, {}, soon),
  }
}
const llama = backendName('llama')
const whisper = backendName('whisper')
const broken: Failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is gone' }
const installs = ({ calls }: { calls: readonly { what: string }[] }) => calls.filter(({ what }) => what === 'install')

describe('with async', () => {
  it('replies accepted, then publishes op.result and the inventory', async () => {
    const { installer, install, result, events, status, list } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    expect(await install({ backend: llama, async: true, op_id: 'op-1', generation: 5, digest: digestOf(7) })).toEqual({ accepted: true })
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    expect(await status('op-1')).toMatchObject({ op_id: 'op-1', state: 'running', phase: 'resolving', generation: 5 })
    gate.open()
    expect(await result('op-1')).toMatchObject({ state: 'succeeded', generation: 5, digest: digestOf(7), version: 'v7' })
    await waitFor(() => events.findLastIndex(({ type }) => type === 'inventory') > events.findIndex(({ type }) => type === 'op.result'), {
      what: 'the inventory after the result',
    })
    expect(await list()).toMatchObject({ backends: [{ name: 'llama', digest: digestOf(7), version: 'v7' }] })
    expect(await status('op-1')).toMatchObject({ state: 'succeeded', digest: digestOf(7) })
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  })

  it('reports a failure with its code and retry', async () => {
    const { installer, install, result } = await world()
    installer.script.set(llama, failing(broken))
    expect(await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })).toEqual({ accepted: true })
    expect(await result('op-1')).toMatchObject({ state: 'failed', failure: broken, generation: 1 })
  })

  it('an unexpected error is reported as internal and ends the operation', async () => {
    const log = recordingLog()
    const { installer, install, result } = await world({ log })
    installer.script.set(llama, async () => {
      throw new TypeError('x is undefined')
    })
    await install({ backend: llama, async: true, op_id: 'op-1' })
    expect(await result('op-1')).toMatchObject({ state: 'failed', failure: { code: 'internal', retry: 'backoff' } })
    expect(log.lines.some(({ level }) => level === 'error')).toBe(true)
  })

  it('gets no reply before it is in the journal', async () => {
    const steps: string[] = []
    const paused = Promise.withResolvers<void>()
    const node = await world({
      step: (name) => {
        steps.push(name)
        return name === 'W.journal.after' ? paused.promise : undefined
      },
    })
    let isAnswered = false
    const answered = node.install({ backend: llama, async: true, op_id: 'op-1' }).then(() => (isAnswered = true))
    await waitFor(() => steps.includes('W.journal.after'), { what: 'the journal' })
    expect(isAnswered).toBe(false)
    paused.resolve()
    await answered
    await waitFor(() => steps.includes('W.reply.after'), { what: 'the end' })
    expect(steps.filter((name) => name.startsWith('W.'))).toEqual(['W.recv', 'W.journal.after', 'W.reply.before', 'W.reply.after'])
  })
})

describe('without async, as the original sends them', () => {
  it('S1.8 J1 answers at the end, an upgrade without an address', async () => {
    const { installer, install, upgrade, remove } = await world()
    expect(await install({ backend: llama })).toEqual({ success: true })
    expect(await upgrade({ backend: llama, force: true, model_id: 'm', digest: digestOf(2) })).toEqual({ success: true })
    installer.script.set(llama, failing(broken))
    expect(await upgrade({ backend: llama, digest: digestOf(3) })).toEqual({ success: false, error: 'unavailable: the registry is gone' })
    installer.script.clear()
    expect(await remove({ backend: llama })).toEqual({ success: true })
    expect(await remove({ backend: llama })).toEqual({ success: true })
    expect(installer.installed.size).toBe(0)
  })

  it('S1.12 S3.4 force replaces the installed version', async () => {
    const { installer, install } = await world()
    await install({ backend: llama })
    expect(await install({ backend: llama, force: true, digest: digestOf(2) })).toEqual({ success: true })
    expect(installs(installer)).toMatchObject([{ request: { mode: 'install' } }, { request: { mode: 'reinstall', digest: digestOf(2) } }])
    expect(installer.installed.get(llama)?.digest).toBe(digestOf(2))
  })

  it('S3.6 without force the installed version is enough', async () => {
    const { installer, install } = await world()
    await install({ backend: llama })
    expect(await install({ backend: llama, digest: digestOf(2) })).toEqual({ success: true })
    expect(await install({ backend: llama, force: false })).toEqual({ success: true })
    expect(installs(installer)).toHaveLength(1)
  })

  it('S1.3 a command that waits for its end does not delay others', async () => {
    const { installer, install, list, status } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    const slow = install({ backend: llama })
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    expect(await install({ backend: whisper })).toEqual({ success: true })
    expect((await list()).backends.map(({ name }) => name)).toEqual(['whisper'])
    expect(await status('op-9')).toEqual({ op_id: 'op-9', state: 'unknown' })
    gate.open()
    expect(await slow).toEqual({ success: true })
  })

  it('gets an error reply when the worker leaves the bus first', async () => {
    const node = await world()
    const gate = createGate()
    node.installer.script.set(llama, gate.behaviour)
    const slow = node.install({ backend: llama })
    const outcome = slow.catch((error: unknown) => error)
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    await node.stop()
    expect(await outcome).toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
  })
})

it('S1.23 with the legacy protocol switched off, commands without async are refused and change nothing', async () => {
  const { installer, install, bus } = await world({ isLegacyServed: false })
  expect(await install({ backend: 'a' })).toMatchObject({ success: false, error: expect.stringMatching(/^incompatible/) })
  expect(await install({ backend: 'a', model_id: 'm', async: true })).toMatchObject({ success: false })
  expect(await bus.request(backendDelete, to, { backend: backendName('a') }, soon)).toMatchObject({ success: false })
  expect(installer.installed.size).toBe(0)
  expect(await install({ backend: 'a', async: true })).toEqual({ accepted: true })
})

describe('in order, or in parallel', () => {
  it.each([
    ['install', 'install'],
    ['install', 'upgrade'],
    ['upgrade', 'install'],
  ] as const)('S1.4 %s and %s of one backend never run at once', async (first, second) => {
    const node = await world()
    const gate = createGate()
    node.installer.script.set(llama, gate.behaviour)
    const one = node[first]({ backend: llama, digest: digestOf(1), force: true })
    await waitFor(() => gate.arrived() === 1, { what: 'the first' })
    const two = node[second]({ backend: llama, digest: digestOf(2), force: true })
    await node.list()
    expect(gate.arrived()).toBe(1)
    gate.open()
    expect(await Promise.all([one, two])).toEqual([{ success: true }, { success: true }])
    expect(node.installer.mostAtOnce()).toBe(1)
    expect(node.installer.installed.get(llama)?.digest).toBe(digestOf(2))
  })

  it('S1.1 S1.2 S1.5 S1.24 two hundred slow upgrades do not delay an install of another backend', async () => {
    const { installer, install, upgrade, ticks, result } = await world()
    const gate = createGate()
    for (let n = 0; n < 200; n += 1) {
      const backend = backendName(`slow-${n}`)
      installer.script.set(backend, gate.behaviour)
      expect(await upgrade({ backend, async: true, op_id: `slow-${n}`, generation: n })).toEqual({ accepted: true })
    }
    await waitFor(() => gate.arrived() === 200, { what: 'all to run at once' })
    await install({ backend: whisper, async: true, op_id: 'fast', generation: 1000 })
    await waitFor(() => ticks.some(({ op_id, phase }) => op_id === 'fast' && phase === 'resolving'), {
      what: 'the fast one to begin',
      timeoutMs: 2000,
    })
    expect(await result('fast')).toMatchObject({ state: 'succeeded' })
    expect(gate.arrived()).toBe(200)
    gate.open()
  })

  it('W26 work on meta, concrete and alias names of one directory runs in order', async () => {
    const { installer, install, list } = await world()
    const gate = createGate()
    for (const name of ['llama', 'cuda-llama', 'gguf']) installer.script.set(backendName(name), gate.behaviour)
    const meta = install({ backend: llama, name: 'cuda-llama', alias: 'gguf' })
    await waitFor(() => gate.arrived() === 1, { what: 'the meta backend' })
    const concrete = install({ backend: 'other', name: 'cuda-llama' })
    const alias = install({ backend: 'gguf' })
    await list()
    expect(gate.arrived()).toBe(1)
    gate.open()
    expect(await Promise.all([meta, concrete, alias])).toEqual([{ success: true }, { success: true }, { success: true }])
    expect(installer.mostAtOnce()).toBe(1)
  })

  it('W26 a concrete name leads to the backend that was installed under its meta name', async () => {
    const { installer, install, remove, list } = await world()
    await install({ backend: llama, name: 'cuda-llama', generation: 4 })
    expect(await remove({ backend: 'cuda-llama', generation: 5 })).toEqual({ success: true })
    expect(await list()).toEqual({ backends: [], generations: { llama: 5 } })
    expect(installer.calls.at(-1)).toMatchObject({ what: 'remove', backend: 'llama' })
  })

  it('backends that share only a generation do not refuse each other', async () => {
    const { install } = await world()
    expect(await install({ backend: llama, generation: 9 })).toEqual({ success: true })
    expect(await install({ backend: whisper, generation: 3 })).toEqual({ success: true })
  })
})

describe('the same command again', () => {
  it('A4 joins running work, also from another controller and for another operation', async () => {
    const { installer, install, result } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 5, epoch: 1 })
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 5, epoch: 2 })
    await install({ backend: llama, async: true, op_id: 'op-2', generation: 5, epoch: 2 })
    const waiting = install({ backend: llama, generation: 5, epoch: 2 })
    expect(await install({ backend: llama, async: true, generation: 5, epoch: 1 })).toMatchObject({
      accepted: false,
      failure: { code: 'superseded' },
    })
    gate.open()
    expect(await waiting).toEqual({ success: true })
    expect(await result('op-1')).toMatchObject({ state: 'succeeded' })
    expect(await result('op-2')).toMatchObject({ state: 'succeeded' })
    expect(installs(installer)).toHaveLength(1)
  })

  it('A5 is answered from the journal after its end, also after a restart', async () => {
    const node = await world()
    await node.install({ backend: llama, async: true, op_id: 'op-1', generation: 5, epoch: 1, digest: digestOf(3) })
    await node.result('op-1')
    await node.install({ backend: llama, async: true, op_id: 'op-1', generation: 5, epoch: 2, digest: digestOf(3) })
    expect(await node.result('op-1', 1)).toMatchObject({ state: 'succeeded', generation: 5, digest: digestOf(3) })
    await node.stop()
    const again = await startOperations({ installer: node.installer, path: node.path })
    cleanup.push(async () => again[Symbol.asyncDispose]())
    expect(await askers(again).status('op-1')).toMatchObject({ state: 'succeeded', digest: digestOf(3) })
    expect(await askers(again).install({ backend: llama, generation: 5, epoch: 3, digest: digestOf(3) })).toEqual({ success: true })
    expect(installs(node.installer)).toHaveLength(1)
  })

  it('A20 a hundred times at once runs once, and every caller gets the same result', async () => {
    const { installer, install, result } = await world()
    const gate = createGate()
    installer.script.set(llama, async (context) => {
      await gate.behaviour(context)
      await failing(broken)(context)
    })
    const body = { backend: llama, op_id: 'op-1', generation: 5, epoch: 1 }
    const answers = Array.from({ length: 100 }, (_, n) => install({ ...body, async: n % 2 === 0 }))
    await waitFor(() => gate.arrived() === 1, { what: 'the one' })
    gate.open()
    const heard = await Promise.all(answers)
    expect(heard.filter((reply) => 'accepted' in reply && reply.accepted)).toHaveLength(50)
    expect(heard.filter((reply) => 'success' in reply && reply.error === 'unavailable: the registry is gone')).toHaveLength(50)
    expect(await result('op-1')).toMatchObject({ state: 'failed', failure: broken })
    expect(await install(body)).toEqual({ success: false, error: 'unavailable: the registry is gone' })
    expect(installs(installer)).toHaveLength(1)
  })

  it('the next attempt at an intent that failed runs', async () => {
    const { installer, install } = await world()
    installer.script.set(llama, failing(broken))
    expect(await install({ backend: llama, generation: 5, epoch: 1 })).toMatchObject({ success: false })
    installer.script.clear()
    expect(await install({ backend: llama, generation: 5, epoch: 2 })).toEqual({ success: true })
    expect(await install({ backend: llama, generation: 5, epoch: 1 })).toMatchObject({ success: false, error: /superseded/ })
  })

  it('a backend that was removed by hand since is installed again', async () => {
    const { installer, install } = await world()
    await install({ backend: llama, generation: 5, epoch: 1 })
    installer.installed.clear()
    expect(await install({ backend: llama, generation: 5, epoch: 2 })).toEqual({ success: true })
    expect(installer.installed.has(llama)).toBe(true)
  })
})

describe('the newest intent wins', () => {
  it('A21 a late generation is refused and changes nothing', async () => {
    const { installer, install, remove, list } = await world()
    await install({ backend: llama, generation: 7 })
    expect(await remove({ backend: llama, generation: 6, async: true })).toMatchObject({
      accepted: false,
      failure: { code: 'superseded', retry: 'never' },
    })
    expect(await remove({ backend: llama, generation: 6 })).toMatchObject({ success: false })
    expect((await list()).backends).toHaveLength(1)
    expect(installer.calls).toHaveLength(1)
  })

  it('A9 the result of an older generation is reported under that generation', async () => {
    const paused = Promise.withResolvers<void>()
    let replies = 0
    const { install, result, status } = await world({
      step: (name) => (name === 'W.reply.before' && replies++ === 0 ? paused.promise : undefined),
    })
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1, digest: digestOf(1), exact: true })
    await waitFor(() => replies === 1, { what: 'the older end' })
    await install({ backend: llama, async: true, op_id: 'op-2', generation: 2, digest: digestOf(2), exact: true })
    expect(await result('op-2')).toMatchObject({ generation: 2, digest: digestOf(2) })
    paused.resolve()
    expect(await result('op-1')).toMatchObject({ generation: 1, digest: digestOf(1) })
    expect(await status('op-2')).toMatchObject({ generation: 2, digest: digestOf(2), state: 'succeeded' })
  })

  it('a newer opposite intent cancels running and waiting work, and runs', async () => {
    const { installer, install, remove, result, list } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await install({ backend: llama, async: true, op_id: 'op-2', generation: 2 })
    await waitFor(() => gate.arrived() === 1, { what: 'the install to run' })
    installer.script.clear()
    expect(await remove({ backend: llama, generation: 3 })).toEqual({ success: true })
    const superseded = { state: 'cancelled', failure: { code: 'superseded', retry: 'never' } }
    expect(await result('op-1')).toMatchObject(superseded)
    expect(await result('op-2')).toMatchObject(superseded)
    expect(await list()).toMatchObject({ backends: [] })
  })

  it('S3.13 an upgrade succeeds only when the new version is installed', async () => {
    const { installer, install, upgrade, list } = await world()
    await install({ backend: llama, digest: digestOf(1) })
    installer.isLying = true
    expect(await upgrade({ backend: llama, digest: digestOf(2) })).toMatchObject({ success: false, error: /^integrity: / })
    installer.isLying = false
    expect(await upgrade({ backend: llama, digest: digestOf(2) })).toEqual({ success: true })
    expect((await list()).backends).toMatchObject([{ digest: digestOf(2) }])
  })

  it('S3.16 an upgrade to the installed version verifies it, and repairs damage', async () => {
    const { installer, install, upgrade } = await world()
    await install({ backend: llama, digest: digestOf(1) })
    expect(await upgrade({ backend: llama, digest: digestOf(1) })).toEqual({ success: true })
    installer.damaged.add(llama)
    expect(await upgrade({ backend: llama, digest: digestOf(1) })).toEqual({ success: true })
    expect(installer.calls.map(({ what }) => what)).toEqual(['install', 'verify', 'verify', 'repair'])
  })

  it('S1.19 only an exact version replaces another installed one', async () => {
    const { installer, install } = await world()
    await install({ backend: llama, digest: digestOf(1) })
    await install({ backend: llama, digest: digestOf(2) })
    expect(installer.installed.get(llama)?.digest).toBe(digestOf(1))
    await install({ backend: llama, digest: digestOf(2), exact: true })
    await install({ backend: llama, digest: digestOf(2), exact: true })
    expect(installer.installed.get(llama)?.digest).toBe(digestOf(2))
    expect(installs(installer)).toHaveLength(2)
  })
})

describe('a cancel', () => {
  it('W10 reaches the work, and the reply reports its end', async () => {
    const { installer, install, cancel, result, operations } = await world()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    expect(operations.active()).toEqual(['op-1'])
    expect(await cancel('op-1')).toMatchObject({ state: 'cancelled', failure: { code: 'cancelled' } })
    expect(await result('op-1')).toMatchObject({ state: 'cancelled' })
    expect(operations.active()).toEqual([])
    expect(installer.installed.size).toBe(0)
  })

  it('ends waiting work at once, and changes no finished work', async () => {
    const { installer, install, cancel } = await world()
    await install({ backend: whisper, op_id: 'done', generation: 1 })
    expect(await cancel('done')).toMatchObject({ state: 'succeeded' })
    expect(await cancel('never-heard-of')).toEqual({ op_id: 'never-heard-of', state: 'unknown' })
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await install({ backend: llama, async: true, op_id: 'op-2', generation: 2 })
    expect(await cancel('op-2')).toMatchObject({ state: 'cancelled' })
    gate.open()
  })

  it('work that ignores the cancel is still running, and its real outcome counts', async () => {
    const { installer, install, cancel, result, status } = await world()
    const deaf = Promise.withResolvers<void>()
    installer.script.set(llama, () => deaf.promise)
    installer.install = async ({ backend }, context) => {
      await installer.script.get(backend)?.(context)
      installer.installed.set(backend, { ...emptyBackend, name: backend, digest: digestOf(1) })
      return { digest: digestOf(1), version: 'v1' }
    }
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await waitFor(async () => (await status('op-1')).state === 'running', { what: 'the work to begin' })
    expect(await cancel('op-1')).toMatchObject({ state: 'running' })
    deaf.resolve()
    expect(await result('op-1')).toMatchObject({ state: 'succeeded' })
  })
})

const emptyBackend = { is_system: false, is_meta: false, installed_at: '', gallery_url: '', version: '', uri: '' }

describe('progress', () => {
  const reporting =
    (...phases: Phase[]): Behaviour =>
    async ({ onProgress }) => {
      for (const [index, phase] of phases.entries()) {
        onProgress({ phase, fileName: `sha256:ab (${index + 1}/${phases.length})`, current: index + 1, total: phases.length })
        await new Promise(setImmediate)
      }
    }

  it('S2.17 S2.18 S2.31 is published on the subject of its operation, with all fields of the contract', async () => {
    const { installer, install, upgrade, result, ticks } = await world()
    installer.script.set(llama, reporting('resolving', 'downloading', 'extracting', 'starting'))
    installer.script.set(whisper, reporting('downloading'))
    await Promise.all([
      install({ backend: llama, async: true, op_id: 'op-1', generation: 1, epoch: 1 }),
      upgrade({ backend: whisper, async: true, op_id: 'op-2', generation: 2 }),
    ])
    await Promise.all([result('op-1'), result('op-2')])
    const first = ticks.filter(({ op_id }) => op_id === 'op-1')
    expect(first[0]).toMatchObject({ op_id: 'op-1', node_id: nodeId, backend: 'llama', phase: 'resolving', percentage: 0 })
    expect(first.at(-1)).toMatchObject({ phase: 'starting', current: 4, total: 4, percentage: 100, file_name: 'sha256:ab (4/4)' })
    expect(ticks.filter(({ op_id }) => op_id === 'op-2').every(({ backend }) => backend === 'whisper')).toBe(true)
    expect(Phase.options).toEqual(['resolving', 'downloading', 'extracting', 'starting'])
    const { source_wait: _whileSilent, ...always } = Progress.shape
    expect(Object.keys(first[0] ?? {}).toSorted()).toEqual(Object.keys(always).toSorted())
  })

  it('S2.19 there is none without an operation ID', async () => {
    const { installer, install, ticks, events } = await world()
    installer.script.set(llama, reporting('downloading', 'extracting'))
    expect(await install({ backend: llama, generation: 1 })).toEqual({ success: true })
    await waitFor(() => events.filter(({ type }) => type === 'inventory').length >= 2, { what: 'the inventory' })
    expect(ticks).toEqual([])
    expect(events.filter(({ type }) => type === 'op.result')).toEqual([])
  })

  it('S2.20 the last state is published also on failure, for upgrades and deletes too', async () => {
    const { installer, upgrade, remove, result, ticks } = await world()
    installer.script.set(llama, async (context) => {
      context.onProgress({ phase: 'downloading', current: 40, total: 100 })
      await failing(broken)(context)
    })
    await upgrade({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await result('op-1')
    expect(ticks.at(-1)).toMatchObject({ op_id: 'op-1', phase: 'downloading', current: 40, percentage: 40 })
    await remove({ backend: whisper, async: true, op_id: 'op-2', generation: 2 })
    await result('op-2')
    expect(ticks.at(-1)).toMatchObject({ op_id: 'op-2', phase: null, percentage: 100 })
  })

  it('sequence numbers grow, also over restarts and attempts', async () => {
    const node = await world()
    node.installer.script.set(llama, failing(broken))
    await node.install({ backend: llama, async: true, op_id: 'op-1', generation: 1, epoch: 1 })
    await node.result('op-1')
    await node.stop()
    const again = await startOperations({ installer: node.installer, path: node.path })
    cleanup.push(async () => again[Symbol.asyncDispose]())
    await askers(again).install({ backend: llama, async: true, op_id: 'op-1', generation: 1, epoch: 2 })
    await again.result('op-1', 1)
    const seqs = [...node.ticks, ...again.ticks].map(({ seq }) => seq ?? -1)
    expect(seqs.length).toBeGreaterThanOrEqual(2)
    expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b))
    expect(again.ticks[0]?.seq).toBeGreaterThan(node.ticks.at(-1)?.seq ?? Infinity)
  })

  it('S2.21 a bus that is away neither slows nor fails the work', async () => {
    const { installer, install, interrupt, restore, result } = await world()
    const gate = createGate()
    installer.script.set(llama, async (context) => {
      await gate.behaviour(context)
      for (let n = 0; n < 10_000; n += 1) context.onProgress({ phase: 'downloading', current: n, total: 10_000 })
    })
    await install({ backend: llama, async: true, op_id: 'op-1', generation: 1 })
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    interrupt()
    gate.open()
    await waitFor(() => installer.installed.has(llama), { what: 'the work to be done' })
    restore()
    expect(await result('op-1')).toMatchObject({ state: 'succeeded' })
  })
})

describe('bad requests', () => {
  const bad: readonly (readonly [string, object])[] = [
    ['no backend', {}],
    ['a path as its name', { backend: '../../etc' }],
    ['a name with a slash', { backend: 'a/b' }],
    ['a number as its name', { backend: 7 }],
    ['a digest that is none', { backend: 'llama', digest: 'sha256:zz' }],
    ['a digest of another kind', { backend: 'llama', digest: `md5:${'0'.repeat(32)}` }],
    ['an operation id with a dot', { backend: 'llama', op_id: 'a.b' }],
    ['an operation id with a star', { backend: 'llama', op_id: '*' }],
    ['a negative generation', { backend: 'llama', generation: -1 }],
    ['half a generation', { backend: 'llama', generation: 1.5 }],
    ['a generation beyond counting', { backend: 'llama', generation: 1e300 }],
    ['text for a flag', { backend: 'llama', async: 'yes' }],
    ['a URI without end', { backend: 'llama', uri: `https://${'a'.repeat(5000)}` }],
    ['a list for a name', { backend: ['llama'] }],
    ['galleries without end', { backend: 'llama', backend_galleries: 'x'.repeat(300_000) }],
  ]
  // As somebody sends it who does not check: our own definition would not let it out.
  const unchecked = { ...backendInstall, request: z.unknown() }

  it.each(bad)('%s is refused as invalid and changes nothing', async (_, body) => {
    const { bus, installer, list, operations } = await world()
    await expect(bus.request(unchecked, to, body, soon)).rejects.toMatchObject({ failure: { code: 'invalid', retry: 'never' } })
    expect(installer.calls).toEqual([])
    expect(await list()).toMatchObject({ backends: [] })
    expect(operations.active()).toEqual([])
  })

  it('an unknown backend is not found, at once and without a trace', async () => {
    const { installer, install, upgrade, status } = await world()
    const failure: Failure = { code: 'not_found', retry: 'never', message: 'no gallery has nonesuch' }
    installer.refusals.set(backendName('nonesuch'), failure)
    expect(await install({ backend: 'nonesuch', async: true, op_id: 'op-1', generation: 9 })).toEqual({ accepted: false, failure })
    expect(await upgrade({ backend: 'nonesuch' })).toEqual({ success: false, error: 'not_found: no gallery has nonesuch' })
    expect(await status('op-1')).toEqual({ op_id: 'op-1', state: 'unknown' })
    installer.refusals.clear()
    expect(await install({ backend: 'nonesuch', generation: 8 })).toEqual({ success: true })
  })

  it('X7 galleries in a command are ignored', async () => {
    const { installer, install } = await world()
    await install({ backend: llama, backend_galleries: '[{"name":"evil","url":"https://evil.example"}]' })
    expect(JSON.stringify(installer.calls)).not.toContain('evil')
  })

  it('an install that names a model fails when no process of the backend can start', async () => {
    const { installer, install } = await world()
    expect(await install({ backend: llama, model_id: 'tiny' })).toMatchObject({ success: false, error: /^not_found: / })
    expect(installer.calls.map(({ what }) => what)).toEqual(['install'])
  })

  it('S1.27 stopping backends is served', async () => {
    const log = recordingLog()
    const { bus } = await world({ log })
    bus.publish(backendStop, to, { backend: 'llama' })
    bus.publish(backendStop, to, {})
    await waitFor(() => log.lines.filter(({ message }) => message === 'backend.stop received').length === 2, {
      what: 'both to be heard',
    })
    expect(log.lines.map(({ fields }) => fields['backend'])).toEqual(['llama', null])
  })
})
