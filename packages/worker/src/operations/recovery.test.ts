// A worker that ends at any moment, and its next start with what was on the disk at that moment.
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { backendDelete, backendInstall, backendList, backendUpgrade, opStatus } from '@muster/protocol'
import { makeTempDir, waitFor } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { soon, startOperations, to, type OperationsWorld, type WorldOptions } from '../../test/operations-world.ts'
import { backendName, createGate, createScriptedInstaller, digestOf, failing } from '../../test/scripted-installer.ts'
import { entryLine } from './journal.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})
async function start(options: WorldOptions): Promise<OperationsWorld> {
  const node = await startOperations(options)
  cleanup.push(async () => node[Symbol.asyncDispose]())
  return node
}
async function place(): Promise<string> {
  const directory = await makeTempDir('recovery')
  cleanup.push(directory.remove)
  return join(directory.path, 'operations', 'journal')
}
const llama = backendName('llama')

describe('after the end of the process', () => {
  const commands = { install: backendInstall, upgrade: backendUpgrade, delete: backendDelete }

  it.each(
    (['install', 'upgrade', 'delete'] as const).flatMap((kind) =>
      ['W.recv', 'W.journal.after', 'W.reply.before', 'W.reply.after'].map((at) => [kind, at] as const),
    ),
  )('E1 %s that was at %s comes to its one right end, and that is told', async (kind, at) => {
    const [path, copy] = [await place(), await place()]
    const before = createScriptedInstaller()
    const after = createScriptedInstaller()
    if (kind !== 'install') before.installed.set(llama, { ...blank, name: llama, digest: digestOf(1), version: 'v1' })
    // The next process finds the files as they are at that step.
    let isCopied = false
    const step = async (name: string): Promise<void> => {
      if (name !== at || isCopied) return
      await mkdir(dirname(copy), { recursive: true })
      await copyFile(path, copy)
      after.installed.clear()
      for (const [key, value] of before.installed) after.installed.set(key, value)
      isCopied = true
    }
    const first = await start({ installer: before, path, step })
    const pinned = kind === 'delete' ? {} : { digest: digestOf(2) }
    const body = { backend: llama, async: true, op_id: 'op-1', generation: 5, epoch: 1, ...pinned }
    expect(await first.bus.request(commands[kind], to, body, soon)).toEqual({ accepted: true })
    await first.result('op-1')
    await waitFor(() => isCopied, { what: `the step ${at}` })

    const second = await start({ installer: after, path: copy })
    // Nobody heard of what was only received; its sender sends it again.
    if (at === 'W.recv') await second.bus.request(commands[kind], to, { ...body, epoch: 2 }, soon)
    expect(await second.result('op-1')).toMatchObject({ state: 'succeeded', generation: 5 })
    const { backends } = await second.bus.request(backendList, to, {}, soon)
    expect(backends.map(({ digest }) => digest)).toEqual(kind === 'delete' ? [] : [digestOf(2)])
    // Finished work does not run again.
    if (at.startsWith('W.reply')) expect(after.calls).toEqual([])
  })

  it('cancelled work is not resumed', async () => {
    const path = await place()
    const installer = createScriptedInstaller()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    const first = await start({ installer, path })
    await first.bus.request(backendInstall, to, { backend: llama, async: true, op_id: 'op-1', generation: 5 }, soon)
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    await first.stop()
    const text = (await readFile(path)).toString()
    await writeFile(path, text + entryLine({ type: 'cancel', id: 0, failure: { code: 'cancelled', retry: 'never', message: 'no' } }))
    const second = await start({ installer, path })
    expect(await second.result('op-1')).toMatchObject({ state: 'cancelled' })
    expect(gate.arrived()).toBe(1)
  })

  it('work that a stop interrupted is resumed in order, and counts as no failure', async () => {
    const path = await place()
    const installer = createScriptedInstaller()
    const gate = createGate()
    installer.script.set(llama, gate.behaviour)
    const first = await start({ installer, path })
    for (const n of [1, 2]) {
      const body = { backend: llama, async: true, op_id: `op-${n}`, generation: n, digest: digestOf(7), exact: true }
      await first.bus.request(backendInstall, to, body, soon)
    }
    await waitFor(() => gate.arrived() === 1, { what: 'the first to run' })
    await first.stop()
    expect(first.results()).toEqual([])
    gate.open()
    const second = await start({ installer, path })
    await Promise.all([second.result('op-1'), second.result('op-2')])
    expect(second.results().map(({ op_id, state }) => [op_id, state])).toEqual([
      ['op-1', 'succeeded'],
      ['op-2', 'succeeded'],
    ])
  })

  it('the latest results are published again whenever the bus connects', async () => {
    const installer = createScriptedInstaller()
    installer.script.set(llama, failing({ code: 'disk_full', retry: 'backoff', message: 'full' }))
    const node = await start({ installer })
    await node.bus.request(backendInstall, to, { backend: llama, async: true, op_id: 'op-1', generation: 1 }, soon)
    await node.result('op-1')
    node.interrupt()
    node.restore()
    expect(await node.result('op-1', 1)).toMatchObject({ state: 'failed', failure: { code: 'disk_full' } })
  })

  it('the journal stays short after many commands, and no generation is forgotten', async () => {
    const installer = createScriptedInstaller()
    const node = await start({ installer })
    const order = (backend: string, generation: number) => ({ kind: 'install' as const, backend: backendName(backend), generation })
    await node.operations.submit(order('rare', 1))
    // Many at once, since they share the cost of being made durable: 2 lines each.
    for (let generation = 2; generation < 12; generation += 1) {
      const batch = Array.from({ length: 60 }, (_, n) => node.operations.submit(order(`busy-${n}`, generation)))
      await Promise.all((await Promise.all(batch)).flatMap((submitted) => (submitted.accepted ? [submitted.ended] : [])))
    }
    await node.stop()
    expect((await readFile(node.path)).toString().split('\n').length).toBeLessThan(1100)
    const again = await start({ installer, path: node.path })
    const superseded = { accepted: false, failure: { code: 'superseded' } }
    expect(await again.operations.submit(order('rare', 0))).toMatchObject(superseded)
    expect(await again.operations.submit(order('busy-7', 10))).toMatchObject(superseded)
  })

  it('E23 a journal of a newer version refuses commands, and nothing else', async () => {
    const path = await place()
    await mkdir(dirname(path), { recursive: true })
    const newer = entryLine({ format: 9 } as never)
    await writeFile(path, newer)
    const installer = createScriptedInstaller()
    installer.installed.set(llama, { ...blank, name: llama, digest: digestOf(1), version: 'v1' })
    const node = await start({ installer, path })
    expect(await node.bus.request(backendDelete, to, { backend: llama, async: true }, soon)).toMatchObject({
      accepted: false,
      failure: { code: 'incompatible' },
    })
    expect((await node.bus.request(backendList, to, {}, soon)).backends).toHaveLength(1)
    expect(await node.bus.request(opStatus, to, { op_id: 'op-1' }, soon)).toEqual({ op_id: 'op-1', state: 'unknown' })
    expect((await readFile(path)).toString()).toBe(newer)
  })
})

describe('a node that was removed', () => {
  it('forgets its generations, ends its work and keeps its files, also over a restart', async () => {
    const path = await place()
    const installer = createScriptedInstaller()
    const node = await start({ installer, path })
    const install = (at: OperationsWorld, body: object) => at.bus.request(backendInstall, to, { backend: llama, ...body }, soon)
    await install(node, { generation: 9, op_id: 'op-1' })
    const gate = createGate()
    const slow = backendName('slow')
    installer.script.set(slow, gate.behaviour)
    await node.bus.request(backendInstall, to, { backend: slow, async: true, op_id: 'op-2', generation: 10 }, soon)
    await waitFor(() => gate.arrived() === 1, { what: 'the work to begin' })
    node.operations.forget()
    expect(node.operations.active()).toEqual([])
    expect(node.work.status('op-1' as never)).toMatchObject({ state: 'unknown' })
    expect(installer.installed.has(llama)).toBe(true)
    await node.stop()
    expect(node.results().filter(({ op_id }) => op_id === 'op-2')).toEqual([])
    const again = await start({ installer, path })
    expect(await install(again, { generation: 1 })).toEqual({ success: true })
    expect(gate.arrived()).toBe(1)
  })
})

const blank = { is_system: false, is_meta: false, installed_at: '', gallery_url: '', uri: '' }
