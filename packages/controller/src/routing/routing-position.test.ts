import { silentLog, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import { createPositionPublisher } from './replica-table.ts'

function world() {
  const table: { holdsTo: number | null } = { holdsTo: null }
  const row = { exists: true, isAway: false, seq: 0, writes: 0 }
  const teller = createPositionPublisher({
    ...{ controllerId: 'c', position: () => table.holdsTo, clock: systemClock, log: silentLog },
    controllers: {
      recordRoutes: async (_, seq) => {
        row.writes += 1
        if (row.isAway) throw new Error('no database')
        if (row.exists) row.seq = seq
        return row.exists
      },
    },
  })
  const stopping = new AbortController()
  const ran = teller.run(stopping.signal)
  return {
    ...{ table, row, wake: teller.wake },
    async [Symbol.asyncDispose]() {
      stopping.abort()
      await ran
    },
  }
}
type World = ReturnType<typeof world>
const told = ({ row }: World, seq: number): Promise<unknown> => waitFor(() => row.seq === seq, { what: `${seq} to be told` })

it('publishes the latest position, a few times a second at most, and nothing when it did not move', async () => {
  await using made = world()
  const { table, row, wake } = made
  wake()
  const began = performance.now()
  for (let seq = 1; performance.now() - began < 500; seq += 1) {
    table.holdsTo = seq
    wake()
    await new Promise(setImmediate)
  }
  const last = table.holdsTo ?? 0
  await told(made, last)
  const { writes } = row
  expect(writes).toBeLessThanOrEqual(Math.ceil((performance.now() - began) / 200) + 1)
  const quietFrom = performance.now()
  await waitFor(() => (wake(), performance.now() - quietFrom > 300), { what: 'a while' })
  expect(row.writes).toBe(writes)
})

it.each<[string, Partial<World['row']>]>([
  ['it has no row yet', { exists: false }],
  ['the database is away', { isAway: true }],
])('retries when %s', async (_, trouble) => {
  await using made = world()
  const { table, row, wake } = made
  Object.assign(row, trouble)
  table.holdsTo = 4
  wake()
  await waitFor(() => row.writes > 1, { what: 'a second try' })
  expect(row.seq).toBe(0)
  Object.assign(row, { exists: true, isAway: false })
  await told(made, 4)
})
