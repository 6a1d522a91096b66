import { BackendName, NodeId, OperationId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { BackendCommand, Entry } from './journal.ts'
import { createLedger, type Ledger } from './ledger.ts'

const name = (text: string) => BackendName.parse(text)
const order = (backend: string, over: Partial<BackendCommand> = {}): BackendCommand => ({
  kind: 'install',
  backend: name(backend),
  ...over,
})
const done = { state: 'succeeded' as const }

function add(ledger: Ledger, wanted: BackendCommand, isDone = true): number {
  const work = ledger.add(wanted)
  work.isStored = true
  if (isDone) ledger.apply({ type: 'end', id: work.id, boot: ledger.boot(), outcome: done })
  return work.id
}

describe('the ledger', () => {
  it('is restored from its own entries', () => {
    const ledger = createLedger([{ type: 'boot', boot: 3 }])
    ledger.apply({ type: 'node', node: NodeId.parse('n-1') })
    const first = add(ledger, order('a', { op_id: OperationId.parse('op-1'), generation: 4, epoch: 1 }))
    const open = add(ledger, order('b', { generation: 5, epoch: 1 }), false)
    ledger.apply({ type: 'join', id: open, op_id: OperationId.parse('op-2'), epoch: 7 })
    ledger.apply({ type: 'cancel', id: open, failure: { code: 'cancelled', retry: 'never', message: '' } })
    const again = createLedger(ledger.entries())
    expect(again.entries()).toEqual(ledger.entries())
    expect([...(again.get(open)?.opIds ?? [])]).toEqual(['op-2'])
    expect(again.get(open)).toMatchObject({ id: open, epoch: 7, cancelFailure: { code: 'cancelled' } })
    expect(again.get(first)?.end).toEqual({ outcome: done, boot: 3 })
    expect(again.add(order('c')).id).toBeGreaterThan(open)
  })

  it('reports the highest ended generation of each backend, also after pruning', () => {
    const ledger = createLedger([])
    add(ledger, order('a', { generation: 9 }))
    add(ledger, order('a', { generation: 4 }))
    add(ledger, order('b'))
    add(ledger, order('c', { generation: 2 }), false)
    ledger.add(order('d', { generation: 3 }))
    expect(ledger.generations()).toEqual({ a: 9 })
    ledger.prune()
    expect(ledger.generations()).toEqual({ a: 9 })
    ledger.forget()
    expect(ledger.generations()).toEqual({})
  })

  it('tolerates duplicate entries and entries without work', () => {
    const entries: Entry[] = [
      { type: 'order', id: 1, order: order('a') },
      { type: 'end', id: 1, boot: 1, outcome: done },
      { type: 'order', id: 1, order: order('a') },
      { type: 'end', id: 99, boot: 1, outcome: done },
    ]
    expect(createLedger(entries).get(1)?.end).not.toBeNull()
  })

  it('stays bounded, and keeps running work and the newest generation of each backend', () => {
    const ledger = createLedger([])
    add(ledger, order('rare', { generation: 1 }))
    const open = add(ledger, order('open', { generation: 2 }), false)
    add(ledger, order('mixed', { generation: 3 }))
    add(ledger, order('mixed'))
    for (let generation = 4; generation < 1000; generation += 1) add(ledger, order('busy', { generation }))
    ledger.prune()
    expect(ledger.size()).toBeLessThan(100)
    expect(ledger.ofBackend(name('rare')).map((work) => work.command.generation)).toEqual([1])
    expect(ledger.ofBackend(name('mixed')).map((work) => work.command.generation)).toEqual([3, undefined])
    expect(ledger.ofBackend(name('busy')).at(-1)?.command.generation).toBe(999)
    expect(ledger.unfinished().map(({ id }) => id)).toEqual([open])
  })

  it('does not write work that is not stored yet', () => {
    const ledger = createLedger([])
    ledger.add(order('a'))
    expect(ledger.entries()).toEqual([{ type: 'boot', boot: 0 }])
  })

  it('returns the results of this run and the one before, not older ones', () => {
    const ledger = createLedger([{ type: 'boot', boot: 1 }])
    add(ledger, order('old'))
    ledger.apply({ type: 'boot', boot: 2 })
    add(ledger, order('before'))
    ledger.apply({ type: 'boot', boot: 3 })
    add(ledger, order('now'))
    expect(ledger.recentResults().map((work) => work.command.backend)).toEqual(['before', 'now'])
  })

  it('W26 finds every name that leads to the same directory', () => {
    const ledger = createLedger([])
    add(ledger, order('llama', { name: name('cuda-llama'), alias: name('gguf') }))
    add(ledger, order('whisper'))
    expect(ledger.namesOf(order('gguf')).toSorted()).toEqual(['cuda-llama', 'gguf', 'llama'])
    expect(ledger.canonicalName(name('cuda-llama'))).toBe('llama')
    expect(ledger.canonicalName(name('gguf'))).toBe(null)
  })
})
