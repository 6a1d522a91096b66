import { systemClock, type Clock } from '@muster/host'
import { describe, expect, it } from 'vitest'
import type { AccessStore } from '../store/access.ts'
import { createPrincipalFinder } from './principal.ts'

type Find = AccessStore['findKey']

function world() {
  let now = 0
  let find: Find = async () => ({ id: 'k', name: 'ci', scope: 'inference' })
  let asked = 0
  const clock: Clock = { ...systemClock, monotonic: () => now }
  const access = { findKey: (hash: string) => ((asked += 1), find(hash)) } as unknown as AccessStore
  return {
    finder: createPrincipalFinder({ access, clock }),
    pass: (ms: number) => void (now += ms),
    set: (next: Find) => void (find = next),
    asked: () => asked,
  }
}
const failing: Find = async () => {
  throw new Error('the database is away')
}

describe('a principal', () => {
  it('is looked up once for concurrent requests, and again after a second', async () => {
    const { finder, pass, asked } = world()
    await Promise.all(Array.from({ length: 100 }, () => finder.byKey('secret')))
    await finder.byKey('secret')
    expect(asked()).toBe(1)
    pass(1_001)
    await finder.byKey('secret')
    expect(asked()).toBe(2)
  })

  it('D4 stays valid for ten minutes while the database is away, whether it fails or hangs', async () => {
    const { finder, pass, set } = world()
    await finder.byKey('secret')
    set(failing)
    pass(60_000)
    expect(await finder.byKey('secret')).toMatchObject({ id: 'k' })
    set(() => new Promise(() => undefined))
    expect(await finder.byKey('secret')).toMatchObject({ id: 'k' })
    await expect(world().finder.byKey('secret')).resolves.toMatchObject({ id: 'k' })
  })

  it('D4 is not valid without a recent lookup', async () => {
    const { finder, pass, set } = world()
    await finder.byKey('secret')
    set(failing)
    pass(600_001)
    await expect(finder.byKey('secret')).rejects.toThrow(/away/)
    await expect(finder.byKey('another')).rejects.toThrow(/away/)
  })

  it('is invalid once it is revoked', async () => {
    const { finder, pass, set } = world()
    await finder.byKey('secret')
    set(async () => null)
    pass(1_001)
    expect(await finder.byKey('secret')).toBeNull()
    expect(await finder.byKey('secret')).toBeNull()
  })
})
