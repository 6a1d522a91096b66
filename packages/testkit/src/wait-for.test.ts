import { describe, expect, it } from 'vitest'
import { waitFor } from './wait-for.ts'

describe('waitFor', () => {
  it('returns the first truthy answer', async () => {
    let asked = 0
    const answer = await waitFor(() => (++asked === 3 ? 'third' : null), { what: 'the third question' })
    expect([answer, asked]).toEqual(['third', 3])
  })

  it('names the awaited condition and the last value', async () => {
    const waiting = waitFor(() => false, { what: 'rain', timeoutMs: 60 })
    await expect(waiting).rejects.toThrow('waited 60 ms for rain; last seen: false')
  })

  it('asks again after an error, and shows the last one', async () => {
    let asked = 0
    const waiting = waitFor(
      () => {
        throw new Error(`no answer ${++asked}`)
      },
      { what: 'an answer', timeoutMs: 60 },
    )
    await expect(waiting).rejects.toThrow(/last seen: an error: no answer [2-9]/)
  })

  it('does not wait for a condition that never answers', async () => {
    const waiting = waitFor(() => new Promise<boolean>(() => undefined), { what: 'an answer', timeoutMs: 60 })
    await expect(waiting).rejects.toThrow('last seen: nothing: the condition never answered')
  })
})
