import { createLog, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import { createKeepLoadInfo } from './create-models.ts'

it('S4.8 parameters that cannot be saved are logged once, and saved later', async () => {
  const lines: string[] = []
  const log = createLog({ level: 'info', format: 'json', stream: { write: (line) => lines.push(line) } })
  let tries = 0
  const saveNew = async (): Promise<void> => {
    tries += 1
    if (tries < 4) throw new Error('no database')
  }
  // Every pause is short: the test waits for no clock.
  const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 1), signal) }
  const keep = createKeepLoadInfo({ loadInfo: { saveNew }, clock, log })
  const stopping = new AbortController()
  const running = keep.run(stopping.signal)
  keep.wake()
  await waitFor(() => lines.some((line) => line.includes('over')), { what: 'it to be saved' })
  expect(lines.filter((line) => line.includes('no database'))).toHaveLength(1)
  stopping.abort()
  await running
})
