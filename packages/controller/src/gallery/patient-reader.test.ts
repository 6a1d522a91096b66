import type { Clock } from '@muster/host'
import { expect, it } from 'vitest'
import { createPatientReader } from './patient-reader.ts'

const address = { name: 'main', url: 'https://h.example/index.yaml' }
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** Time passes when a test says so; each reading ends when a test settles it. */
function world() {
  let now = 0
  const sleepers: { readonly at: number; readonly wake: () => void }[] = []
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        sleepers.push({ at: now + ms, wake: resolve })
        signal?.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
      }),
  }
  const begun: PromiseWithResolvers<string>[] = []
  const stopping = new AbortController()
  const aborted: string[] = []
  const read = createPatientReader<string>({
    read: (_, signal) => {
      const reading = Promise.withResolvers<string>()
      signal.addEventListener('abort', () => aborted.push('aborted'))
      begun.push(reading)
      return reading.promise
    },
    stopping: stopping.signal,
    clock,
  })
  return {
    ...{ begun, stopping, aborted },
    read: () => read(address).catch((error: Error) => error.message),
    async pass(ms: number): Promise<void> {
      await turns()
      now += ms
      for (const { at, wake } of sleepers) if (at <= now) wake()
      await turns()
    },
  }
}

it('a gallery that takes longer than a caller waits is read on, and not begun anew', async () => {
  const { read, pass, begun, aborted } = world()
  const [first, second] = [read(), read()]
  await pass(10_000)
  expect(await first).toBe('the gallery main is still being read, for 10 s now; it counts once it is complete')
  expect(await second).toMatch(/still being read/)
  const third = read()
  await pass(10_000)
  expect(await third).toMatch(/still being read, for 20 s now/)
  const fourth = read()
  await pass(5_000)
  begun[0]?.resolve('content')
  expect(await fourth).toBe('content')
  expect([begun.length, aborted]).toEqual([1, []])
})

it.each(['content', 'refused: line 7'])('the result of a reading that outlasted its callers is for the next one: %s', async (result) => {
  const { read, pass, begun } = world()
  const first = read()
  await pass(10_000)
  await first
  if (result === 'content') begun[0]?.resolve(result)
  else begun[0]?.reject(new Error(result))
  await pass(60_000)
  expect(await read()).toBe(result)
  expect(begun).toHaveLength(1)
})

it('each caller gets a new reading of a gallery that is quick', async () => {
  const { read, begun, pass } = world()
  for (const content of ['one', 'two']) {
    const reading = read()
    await pass(100)
    begun.at(-1)?.resolve(content)
    expect(await reading).toBe(content)
  }
  expect(begun).toHaveLength(2)
})

it('while a newer reading takes its time the last complete one counts, for ten minutes', async () => {
  const { read, pass, begun } = world()
  const first = read()
  begun[0]?.resolve('one')
  expect(await first).toBe('one')
  const second = read()
  await pass(10_000)
  expect(await second).toBe('one')
  await pass(600_000)
  const third = read()
  await pass(10_000)
  expect(await third).toMatch(/still being read/)
  const fourth = read()
  begun[1]?.resolve('two')
  expect([await fourth, begun.length]).toEqual(['two', 2])
})

it('a controller that stops ends the reading', async () => {
  const { read, stopping, aborted } = world()
  void read()
  await turns()
  stopping.abort(new Error('stopping'))
  await turns()
  expect(aborted).toEqual(['aborted'])
})
