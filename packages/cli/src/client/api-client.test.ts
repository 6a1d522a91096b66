import { describe, expect, it } from 'vitest'
import { retryBroken } from './api-client.ts'

const broken = (code: string) => Object.assign(new Error(code), { code })

/** Answers with what is listed, one per try, and the last one from then on. */
function world(...outcomes: readonly (Error | string)[]) {
  let tries = 0
  const slept: number[] = []
  const send = async (): Promise<string> => {
    const outcome = outcomes[Math.min(tries++, outcomes.length - 1)] ?? ''
    if (typeof outcome === 'string') return outcome
    throw outcome
  }
  const result = retryBroken(send, { sleep: async (ms) => void slept.push(ms) })
  return { result, tries: () => tries, slept }
}

describe('repeatBroken', () => {
  it('sends once when it is answered', async () => {
    const { result, tries } = world('done')
    expect(await result).toBe('done')
    expect(tries()).toBe(1)
  })

  it('repeats after a broken connection, also while nothing listens for a moment', async () => {
    const { result, slept } = world(broken('ECONNRESET'), broken('ECONNREFUSED'), 'done')
    expect(await result).toBe('done')
    expect(slept).toEqual([250, 500])
  })

  it('does not repeat a request that was never sent', async () => {
    const { result, tries } = world(broken('ECONNREFUSED'), 'done')
    await expect(result).rejects.toThrow('ECONNREFUSED')
    expect(tries()).toBe(1)
  })

  it('gives up in the end, with the last error', async () => {
    const { result, slept } = world(broken('ECONNRESET'), broken('EPIPE'))
    await expect(result).rejects.toThrow('EPIPE')
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(30_000)
  })
})
