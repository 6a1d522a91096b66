import { createLog, systemClock } from '@muster/host'
import { ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import { createKeepLoadInfo } from './keep-load-info.ts'

const [a, b] = [ReplicaId.parse('a'), ReplicaId.parse('b')]

it('S4.8 what can not be saved is said once, and saved later, in order', async () => {
  const lines: string[] = []
  const log = createLog({ level: 'warn', format: 'json', stream: { write: (line) => lines.push(line) } })
  const saved: ReplicaId[] = []
  let broken = 3
  const saveOf = async (id: ReplicaId): Promise<void> => {
    broken -= 1
    if (broken > 0) throw new Error('no database')
    saved.push(id)
  }
  // Every pause is short: the test waits for no clock.
  const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 1), signal) }
  const keep = createKeepLoadInfo({ loadInfo: { saveOf }, clock, log })
  const stopping = new AbortController()
  const running = keep.run(stopping.signal)
  keep.note(a)
  keep.note(b)
  await waitFor(() => saved.length === 2, { what: 'both to be saved' })
  expect(saved).toEqual([a, b])
  expect(lines.filter((line) => line.includes('can not be saved'))).toHaveLength(1)
  stopping.abort()
  await running
})
