import { silentLog, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { afterEach, expect, it } from 'vitest'
import { createLastUse } from './last-use.ts'

const endings: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of endings.splice(0)) await end()
})

function world() {
  const written: (readonly string[])[] = []
  const markUsed = async (models: readonly string[]): Promise<void> => void written.push(models)
  const marks = createLastUse({ routes: { markUsed }, idleMs: 3, clock: systemClock, log: silentLog })
  const stopping = new AbortController()
  const running = marks.run(stopping.signal)
  endings.push(async () => {
    stopping.abort()
    await running
  })
  /** The models of each of the next writes. */
  const next = async (count: number) => {
    const from = written.length
    return await waitFor(() => (written.length >= from + count ? written.slice(from, from + count) : null), { what: 'writes' })
  }
  return { marks, next }
}

it('a model is in use while a response is open, and once more when it ends', async () => {
  const { marks, next } = world()
  const [first, second] = [marks.open('tiny'), marks.open('tiny')]
  expect(await next(3)).toEqual([['tiny'], ['tiny'], ['tiny']])
  first[Symbol.dispose]()
  expect(await next(2)).toEqual([['tiny'], ['tiny']])
  second[Symbol.dispose]()
  expect(await next(3)).toEqual([['tiny'], [], []])
})
