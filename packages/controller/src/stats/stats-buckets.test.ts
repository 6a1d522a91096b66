import { describe, expect, it } from 'vitest'
import { StatsBuckets } from './stats-buckets.ts'

function world() {
  let now = Date.parse('2026-01-01T00:00:03Z')
  return { book: new StatsBuckets(() => now), pass: (ms: number) => void (now += ms) }
}
const request = (changes = {}) => ({
  model: 'tiny',
  nodeId: 'a',
  outcome: 'ok' as const,
  promptTokens: 2,
  completionTokens: 3,
  ms: 10.4,
  ...changes,
})

describe('a stats bucket', () => {
  it('sums requests per model, node and ten seconds, and is taken when it is over', () => {
    const { book, pass } = world()
    book.record(request())
    book.record(request({ outcome: 'error' }))
    book.record(request({ nodeId: 'b' }))
    expect(book.take()).toEqual([])
    pass(7_000)
    expect(book.take()).toEqual([
      {
        at: '2026-01-01T00:00:00.000Z',
        model: 'tiny',
        node_id: 'a',
        requests: 2,
        errors: 1,
        client_errors: 0,
        overloaded: 0,
        prompt_tokens: 4,
        completion_tokens: 6,
        in_flight: 0,
        duration_ms: 20,
      },
      {
        at: '2026-01-01T00:00:00.000Z',
        model: 'tiny',
        node_id: 'b',
        requests: 1,
        errors: 0,
        client_errors: 0,
        overloaded: 0,
        prompt_tokens: 2,
        completion_tokens: 3,
        in_flight: 0,
        duration_ms: 10,
      },
    ])
    expect(book.take()).toEqual([])
  })

  it('records the most requests open at once, also of requests that last longer than a bucket', () => {
    const { book, pass } = world()
    const [first, second] = [book.open({ model: 'tiny', nodeId: 'a' }), book.open({ model: 'tiny', nodeId: 'a' })]
    second[Symbol.dispose]()
    second[Symbol.dispose]()
    const taken = () => {
      pass(10_000)
      return book.take().map((bucket) => [bucket.at.slice(17, 19), bucket.in_flight])
    }
    expect(taken()).toEqual([['00', 2]])
    first[Symbol.dispose]()
    expect(taken()).toEqual([['10', 1]])
    expect(taken()).toEqual([])
  })

  it('that could not be written is taken again', () => {
    const { book, pass } = world()
    book.record(request())
    pass(10_000)
    book.putBack(book.take())
    expect(book.take()).toHaveLength(1)
  })

  it('is taken at the stop', () => {
    const { book } = world()
    book.record(request())
    expect(book.take({ all: true })).toMatchObject([{ requests: 1 }])
    expect(book.take({ all: true })).toEqual([])
  })
})
