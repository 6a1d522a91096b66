import { sha256Hex, silentLog, systemClock, type Clock } from '@muster/host'
import { describe, expect, it } from 'vitest'
import type { AccessStore } from '../store/access.ts'
import { createPrincipalFinder, createPrincipalWatch, type Principal } from './principal.ts'
import { newSessionSecret } from './secrets.ts'

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

  it.each<[string, Find]>([
    ['fails', failing],
    ['hangs', () => new Promise(() => undefined)],
  ])('SEC10 that was seen revoked stays invalid while the database %s', async (_, away) => {
    const { finder, pass, set } = world()
    await finder.byKey('secret')
    set(async () => null)
    pass(1_001)
    expect(await finder.byKey('secret')).toBeNull()
    set(away)
    for (const ms of [0, 1_001, 60_000, 500_000]) {
      pass(ms)
      expect(await finder.byKey('secret')).toBeNull()
    }
  })

  it('is looked up again after it was seen revoked: a secret may be stored anew', async () => {
    const { finder, pass, set } = world()
    await finder.byKey('secret')
    set(async () => null)
    pass(1_001)
    expect(await finder.byKey('secret')).toBeNull()
    set(async () => ({ id: 'k2', name: 'again', scope: 'admin' }))
    pass(1_001)
    expect(await finder.byKey('secret')).toMatchObject({ id: 'k2' })
  })

  it('that was never valid leaves nothing behind, and is refused by an error while the database is away', async () => {
    const { finder, set } = world()
    set(async () => null)
    expect(await finder.byKey('guessed')).toBeNull()
    expect(finder.listCached()).toEqual([])
    set(failing)
    await expect(finder.byKey('guessed')).rejects.toThrow(/away/)
  })
})

/** A database of keys (by secret) and sessions (by cookie, with the time at which they expire), which can be away. */
function watchedWorld() {
  let now = 0
  const stored = { keys: new Map<string, string>(), sessions: new Map<string, number>(), isAway: false }
  const database = <T>(read: () => T): Promise<T> =>
    stored.isAway ? Promise.reject(new Error('the database is away')) : Promise.resolve(read())
  const sessionOf = (hash: string): number | null =>
    [...stored.sessions].find(([cookie, endsAt]) => sha256Hex(cookie) === hash && endsAt > now)?.[1] ?? null
  const access = {
    findKey: (hash: string) =>
      database(() => {
        const id = [...stored.keys].find(([secret]) => sha256Hex(secret) === hash)?.[1]
        return id === undefined ? null : { id, name: id, scope: 'admin' }
      }),
    findSession: (hash: string) =>
      database(() => {
        const endsAt = sessionOf(hash)
        return endsAt === null ? null : { leftMs: endsAt - now }
      }),
    stillValid: (given: { keys: readonly string[]; sessions: readonly string[] }) =>
      database(() => ({
        keys: new Set(given.keys.filter((id) => [...stored.keys.values()].includes(id))),
        sessions: new Set(given.sessions.filter((hash) => sessionOf(hash) !== null)),
      })),
  } as unknown as AccessStore
  // The watch sleeps between rounds; `round` ends that sleep.
  let wake: () => void = () => undefined
  let slept: () => void = () => undefined
  const stop = new AbortController()
  const watchClock: Clock = {
    ...systemClock,
    monotonic: () => now,
    sleep: (_, signal) =>
      new Promise((resolve, reject) => {
        wake = resolve
        signal?.addEventListener('abort', () => reject(new Error('aborted')))
        slept()
      }),
  }
  const principals = createPrincipalFinder({ access, clock: { ...systemClock, monotonic: () => now } })
  const watch = createPrincipalWatch({ access, principals, clock: watchClock, log: silentLog })
  const nextSleep = (): Promise<void> => new Promise((resolve) => (slept = resolve))
  const begun = nextSleep()
  void watch.run(stop.signal)
  return {
    stored,
    principals,
    pass: (ms: number) => void (now += ms),
    async round(): Promise<void> {
      await begun
      const done = nextSleep()
      wake()
      await done
    },
    hold(principal: Principal | null): { isOpen: boolean } {
      const stream = { isOpen: true }
      if (principal === null) throw new Error('the principal is not valid')
      watch.hold(principal, () => (stream.isOpen = false))
      return stream
    },
    [Symbol.dispose]: () => stop.abort(),
  }
}

describe('the watch', () => {
  it('SEC10 a key that is revoked while nobody uses it is refused when the database goes away after that', async () => {
    using watched = watchedWorld()
    watched.stored.keys.set('secret', 'k1').set('other', 'k2')
    await watched.principals.byKey('secret')
    await watched.principals.byKey('other')
    watched.stored.keys.delete('secret')
    watched.pass(1_000)
    await watched.round()
    watched.stored.isAway = true
    for (const ms of [0, 5_000, 500_000]) {
      watched.pass(ms)
      expect(await watched.principals.byKey('secret')).toBeNull()
      expect(await watched.principals.byKey('other')).toMatchObject({ id: 'k2' })
    }
  })

  it('SEC10 the controller that revokes a key refuses it at once, and the sessions that were created with it', async () => {
    using watched = watchedWorld()
    const cookie = newSessionSecret('k1')
    watched.stored.keys.set('secret', 'k1')
    watched.stored.sessions.set(cookie, 1e9)
    await watched.principals.byKey('secret')
    await watched.principals.byCookie(cookie)
    watched.principals.revoke((principal) => (principal.kind === 'key' ? principal.id : principal.key) === 'k1')
    watched.stored.isAway = true
    expect(await watched.principals.byKey('secret')).toBeNull()
    expect(await watched.principals.byCookie(cookie)).toBeNull()
  })

  it('a session expires on time, also while the database is away', async () => {
    using watched = watchedWorld()
    const cookie = newSessionSecret(null)
    watched.stored.sessions.set(cookie, 10_000)
    expect(await watched.principals.byCookie(cookie)).toMatchObject({ kind: 'browser' })
    watched.stored.isAway = true
    watched.pass(9_999)
    expect(await watched.principals.byCookie(cookie)).toMatchObject({ kind: 'browser' })
    watched.pass(1)
    expect(await watched.principals.byCookie(cookie)).toBeNull()
  })

  it('a session that expires within the second for which it is cached is refused', async () => {
    using watched = watchedWorld()
    const cookie = newSessionSecret(null)
    watched.stored.sessions.set(cookie, 500)
    await watched.principals.byCookie(cookie)
    watched.pass(500)
    expect(await watched.principals.byCookie(cookie)).toBeNull()
  })

  it('a logged out session is refused, also while the database is away', async () => {
    using watched = watchedWorld()
    const cookie = newSessionSecret(null)
    watched.stored.sessions.set(cookie, 1e9)
    await watched.principals.byCookie(cookie)
    watched.principals.forgetCookie(cookie)
    watched.stored.isAway = true
    watched.pass(1_001)
    expect(await watched.principals.byCookie(cookie)).toBeNull()
  })

  it.each<[string, (watched: ReturnType<typeof watchedWorld>, cookie: string) => void]>([
    ['its session expires', ({ pass }) => pass(10_000)],
    ['its session expires and the database is away', ({ pass, stored }) => ((stored.isAway = true), pass(10_000))],
    ['its session is removed', ({ stored }, cookie) => void stored.sessions.delete(cookie)],
    ['the key of its session is revoked', ({ stored }) => void stored.keys.delete('secret')],
  ])('SEC10 a stream ends when %s, and others go on', async (_, happen) => {
    using watched = watchedWorld()
    const [cookie, other] = [newSessionSecret('k1'), newSessionSecret(null)]
    watched.stored.keys.set('secret', 'k1').set('another', 'k2')
    watched.stored.sessions.set(cookie, 10_000).set(other, 1e9)
    const stream = watched.hold(await watched.principals.byCookie(cookie))
    const others = [watched.hold(await watched.principals.byCookie(other)), watched.hold(await watched.principals.byKey('another'))]
    await watched.round()
    expect(stream.isOpen).toBe(true)
    happen(watched, cookie)
    await watched.round()
    expect([stream, ...others].map(({ isOpen }) => isOpen)).toEqual([false, true, true])
  })

  it('D4 a stream goes on while the database is away, for ten minutes', async () => {
    using watched = watchedWorld()
    watched.stored.keys.set('secret', 'k1')
    const stream = watched.hold(await watched.principals.byKey('secret'))
    watched.stored.isAway = true
    watched.pass(600_000)
    await watched.round()
    expect(stream.isOpen).toBe(true)
    watched.pass(1)
    await watched.round()
    expect(stream.isOpen).toBe(false)
  })

  it('forgets principals that nobody used for ten minutes', async () => {
    using watched = watchedWorld()
    watched.stored.keys.set('secret', 'k1')
    await watched.principals.byKey('secret')
    watched.pass(600_001)
    expect(watched.principals.listCached()).toEqual([])
  })
})
