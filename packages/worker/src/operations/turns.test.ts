import { describe, expect, it } from 'vitest'
import { createTurns, type TakeTurn } from './executor.ts'

const open = new AbortController().signal

/** Notes who came, in order. */
function queue(takeTurn: TakeTurn, came: string[]) {
  return (id: string, names: readonly string[], signal = open) => {
    const turn = takeTurn(names, signal)
    void turn.ready.then(
      () => came.push(id),
      () => came.push(`${id} left`),
    )
    return turn
  }
}
const settled = () => new Promise(setImmediate)

describe('turns', () => {
  it('S1.4 work that shares a name runs in order', async () => {
    const came: string[] = []
    const take = queue(createTurns(), came)
    const [a, b, c] = [take('a', ['x']), take('b', ['x']), take('c', ['x'])]
    await settled()
    expect(came).toEqual(['a'])
    a.end()
    await settled()
    expect(came).toEqual(['a', 'b'])
    b.end()
    c.end()
    await settled()
    expect(came).toEqual(['a', 'b', 'c'])
  })

  it('S1.5 S1.24 a hundred waiting entries do not delay another name', async () => {
    const came: string[] = []
    const take = queue(createTurns(), came)
    for (let n = 0; n < 100; n += 1) take(`slow ${n}`, ['slow'])
    take('fast', ['fast'])
    await settled()
    expect(came).toEqual(['slow 0', 'fast'])
  })

  it('W26 a meta, a concrete and an alias name of one directory are one turn', async () => {
    const came: string[] = []
    const take = queue(createTurns(), came)
    const meta = take('meta', ['llama', 'cuda12-llama'])
    take('concrete', ['cuda12-llama'])
    take('alias', ['llama'])
    take('other', ['whisper'])
    await settled()
    expect(came).toEqual(['meta', 'other'])
    meta.end()
    await settled()
    expect(came).toEqual(['meta', 'other', 'concrete', 'alias'])
  })

  it('an aborted entry leaves the queue, and others proceed', async () => {
    const came: string[] = []
    const take = queue(createTurns(), came)
    const off = new AbortController()
    const first = take('first', ['x'])
    take('second', ['x', 'y'], off.signal)
    take('third', ['y'])
    await settled()
    expect(came).toEqual(['first'])
    off.abort()
    await settled()
    expect(came).toEqual(['first', 'third', 'second left'])
    first.end()
  })
})
