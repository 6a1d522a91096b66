import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Clock } from './clock.ts'
import { identifyProcess, identifySelf, type ProcessIdentity } from './process-identity.ts'
import { acquireRoleLock } from './role-lock.ts'

let directory: string
let child: ChildProcess | undefined

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-role-lock-'))
})

afterEach(async () => {
  if (child !== undefined) {
    child.kill('SIGKILL')
    await once(child, 'exit')
    child = undefined
  }
  await rm(directory, { recursive: true, force: true })
})

/** Sleeps take no time and are counted. */
function fakeClock(onSleep: () => Promise<void> | void = () => {}) {
  let ms = 0
  const clock: Clock = {
    now: () => 1_000_000_000_000 + ms,
    monotonic: () => ms,
    sleep: async (duration, signal) => {
      signal?.throwIfAborted()
      ms += duration
      await onSleep()
    },
  }
  return { clock, slept: () => ms }
}

const take = (clock: Clock, signal?: AbortSignal) => acquireRoleLock({ directory, role: 'worker', clock, ...(signal && { signal }) })
const claim = (text: string, name = 'worker.other.json') => writeFile(join(directory, name), text)
const claimOf = (identity: ProcessIdentity | null) => claim(JSON.stringify(identity))

/** A process that started after this one. */
async function youngerProcess(): Promise<ProcessIdentity | null> {
  child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'inherit'] })
  await once(child, 'spawn')
  return identifyProcess(child.pid ?? 0)
}

describe('takes the lock', () => {
  it('at once when it is free, and leaves nothing behind', async () => {
    const { clock, slept } = fakeClock()
    const lock = await take(clock)
    expect(lock.held).toBe(true)
    const [name = ''] = await readdir(directory)
    expect(name).toMatch(new RegExp(`^worker\\.${process.pid}-`))
    expect(JSON.parse(await readFile(join(directory, name), 'utf8'))).toEqual(identifySelf())
    if (lock.held) await lock.release()
    if (lock.held) await lock.release()
    expect(await readdir(directory)).toEqual([])
    expect(slept()).toBe(0)
  })

  it.each<[string, () => ProcessIdentity]>([
    ['whose pid went to another process', () => ({ ...identifySelf(), started: '1' })],
    ['from before the last boot', () => ({ ...identifySelf(), boot: 'other' })],
    ['that has ended', () => ({ ...identifySelf(), pid: 4_194_304 + 1 })],
  ])('from a process %s', async (_what, dead) => {
    await claimOf(dead())
    expect((await take(fakeClock().clock)).held).toBe(true)
    expect(await readdir(directory)).not.toContain('worker.other.json')
  })

  it.each(['', '{', 'null', '[]', '{"pid":1}'])('from an old claim that reads "%s"', async (text) => {
    await claim(text)
    expect((await take(fakeClock().clock)).held).toBe(true)
    expect(await readdir(directory)).toHaveLength(1)
  })

  it('while another process has another role', async () => {
    await claim(JSON.stringify(identifyProcess(process.ppid)), 'controller.other.json')
    expect((await take(fakeClock().clock)).held).toBe(true)
  })

  it('after a younger rival withdrew', async () => {
    await claimOf(await youngerProcess())
    const { clock, slept } = fakeClock(() => rm(join(directory, 'worker.other.json'), { force: true }))
    expect((await take(clock)).held).toBe(true)
    expect(slept()).toBe(20)
  })
})

describe('is refused', () => {
  it('at once by an elder process', async () => {
    await claimOf(identifyProcess(process.ppid))
    const { clock, slept } = fakeClock()
    expect(await take(clock)).toEqual({ held: false, holderPid: process.ppid })
    expect(slept()).toBe(0)
    expect(await readdir(directory)).toEqual(['worker.other.json'])
  })

  it('after a second by a younger one that stays', async () => {
    const younger = await youngerProcess()
    await claimOf(younger)
    const { clock, slept } = fakeClock()
    expect(await take(clock)).toEqual({ held: false, holderPid: younger?.pid })
    expect(slept()).toBe(1000)
    expect(await readdir(directory)).toEqual(['worker.other.json'])
  })

  it('by a claim that may be in the middle of being written', async () => {
    await claim('{"pi')
    const { clock } = fakeClock()
    await utimes(join(directory, 'worker.other.json'), clock.now() / 1000, clock.now() / 1000)
    expect(await take(clock)).toEqual({ held: false, holderPid: null })
    expect(await readdir(directory)).toEqual(['worker.other.json'])
  })

  it('to a process that has it already', async () => {
    const { clock } = fakeClock()
    const first = await take(clock)
    expect(await take(clock)).toEqual({ held: false, holderPid: process.pid })
    expect(await readdir(directory)).toHaveLength(1)
    if (first.held) await first.release()
    expect((await take(clock)).held).toBe(true)
  })
})

it('stops waiting on abort, and withdraws', async () => {
  await claimOf(await youngerProcess())
  const { clock } = fakeClock()
  await expect(take(clock, AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped')
  expect(await readdir(directory)).toEqual(['worker.other.json'])
})
