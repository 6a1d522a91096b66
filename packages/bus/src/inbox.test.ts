import { describe, expect, it } from 'vitest'
import { createInbox, type InboxOptions } from './inbox.ts'

function inboxOf(options: Pick<InboxOptions<number>, 'handle'> & Partial<InboxOptions<number>>) {
  const counts = { dropped: 0, excess: 0, bursts: 0 }
  const inbox = createInbox<number>({
    maxPending: 1000,
    maxPendingSize: 1_000_000,
    onDropped: () => void (counts.dropped += 1),
    onExcess: () => void (counts.excess += 1),
    onBurst: () => void (counts.bursts += 1),
    ...options,
  })
  return { inbox, counts }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('createInbox', () => {
  it('keeps the newest within its size, and at least one', () => {
    const seen: number[] = []
    const { inbox, counts } = inboxOf({ maxPendingSize: 100, handle: (item) => void seen.push(item) })
    for (const item of [1, 2, 3]) inbox.push(item, 40)
    expect(counts.dropped).toBe(1)
    inbox.push(4, 500)
    expect(counts.dropped).toBe(3)
  })

  it('reports each burst once, and the next one again', async () => {
    const seen: number[] = []
    const { inbox, counts } = inboxOf({ maxPending: 2, handle: (item) => void seen.push(item) })
    for (const item of [1, 2, 3, 4]) inbox.push(item, 1)
    expect(counts).toEqual({ dropped: 2, excess: 0, bursts: 1 })
    await turn()
    await turn()
    expect(seen).toEqual([3, 4])
    for (const item of [5, 6, 7]) inbox.push(item, 1)
    expect(counts).toEqual({ dropped: 3, excess: 0, bursts: 2 })
    await turn()
    expect(seen).toEqual([3, 4, 6, 7])
  })

  it('lets one sender have only so many waiting, and drops no message of others for it', async () => {
    const seen: number[] = []
    const { inbox, counts } = inboxOf({
      maxPending: 5,
      perSender: { max: 2, senderOf: (item) => String(item % 10) },
      handle: (item) => void seen.push(item),
    })
    for (const item of [1, 2, 11, 21, 31, 41, 3]) inbox.push(item, 1)
    expect(counts).toEqual({ dropped: 0, excess: 3, bursts: 0 })
    await turn()
    expect(seen).toEqual([1, 2, 11, 3])
    for (const item of [51, 61, 71]) inbox.push(item, 1)
    await turn()
    expect(seen.slice(4)).toEqual([51, 61])
  })

  it('a sender whose waiting message was dropped may send the next one', async () => {
    const seen: number[] = []
    const { inbox, counts } = inboxOf({
      maxPending: 2,
      perSender: { max: 1, senderOf: (item) => String(item % 10) },
      handle: (item) => void seen.push(item),
    })
    for (const item of [1, 2, 3, 11]) inbox.push(item, 1)
    expect(counts).toEqual({ dropped: 2, excess: 0, bursts: 1 })
    await turn()
    expect(seen).toEqual([3, 11])
  })

  it('lets other work have its turn while it empties a long queue', async () => {
    const seen: number[] = []
    const { inbox } = inboxOf({ maxPending: 10_000, handle: (item) => void seen.push(item) })
    for (let item = 0; item < 5000; item += 1) inbox.push(item, 1)
    await turn()
    await turn()
    expect(seen.length).toBeGreaterThan(0)
    expect(seen.length).toBeLessThan(5000)
    while (seen.length < 5000) await turn()
    expect(seen).toEqual(Array.from({ length: 5000 }, (_, i) => i))
  })

  it('stops before the first message when it is stopped before', async () => {
    const seen: number[] = []
    const { inbox } = inboxOf({ handle: (item) => void seen.push(item) })
    inbox.push(1, 1)
    await inbox.stop()
    inbox.push(2, 1)
    await turn()
    expect(seen).toEqual([])
  })
})
