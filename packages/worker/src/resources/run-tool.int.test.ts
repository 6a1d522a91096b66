import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { identifyProcess, systemClock } from '@muster/host'
import { makeTempDir } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { createToolRunner, startTool } from './run-tool.ts'

const shell = (script: string) => ({ program: '/bin/sh', args: ['-c', script] })
const real = (timeoutMs: number) =>
  createToolRunner({ start: startTool({ PATH: '/usr/bin:/bin', MUSTER_TOKEN: 'canary', HOME: '/h' }), timeoutMs, clock: systemClock })

describe('a tool', () => {
  it('returns its output', async () => {
    expect(await real(5000)(shell('echo one; echo two'))).toEqual({ kind: 'ok', stdout: 'one\ntwo\n' })
  })

  it('that is not installed is absent', async () => {
    expect(await real(5000)({ program: 'no-such-tool-anywhere', args: [] })).toEqual({ kind: 'absent' })
  })

  it('that fails returns its error output', async () => {
    expect(await real(5000)(shell('echo no driver >&2; exit 9'))).toEqual({
      kind: 'failed',
      reason: '/bin/sh ended with exit code 9: no driver',
    })
  })

  it('does not see secrets of the environment', async () => {
    expect(await real(5000)(shell('echo "$HOME:$MUSTER_TOKEN:$LC_ALL"'))).toEqual({ kind: 'ok', stdout: '/h::C\n' })
  })

  it('that prints too much is stopped', async () => {
    expect(await real(5000)(shell('yes'))).toMatchObject({ kind: 'failed', reason: expect.stringContaining('more than') })
  })

  it('that hangs is killed with its children, and may run again', async () => {
    await using directory = await makeTempDir('tool')
    const run = real(200)
    const file = join(directory.path, 'pid')
    expect(await run(shell(`sleep 1000 & echo $! > ${file}; wait`))).toMatchObject({
      kind: 'failed',
      reason: expect.stringContaining('200 ms'),
    })
    const pid = Number(await readFile(file, 'utf8'))
    await expect.poll(() => identifyProcess(pid)).toBeNull()
    await expect.poll(() => run(shell('echo back')), { interval: 5 }).toEqual({ kind: 'ok', stdout: 'back\n' })
  })
})

it('a tool that cannot be killed counts as failed and does not crash the worker', async () => {
  const run = createToolRunner({
    timeoutMs: 10,
    clock: systemClock,
    start: () => {
      const child = Object.assign(new EventEmitter(), { stdout: null, stderr: null, unref: () => undefined })
      const kill = (): void => {
        throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
      }
      return { child: child as unknown as ChildProcess, kill }
    },
  })
  expect(await run(shell(''))).toMatchObject({ kind: 'failed', reason: expect.stringMatching(/did not answer.*EPERM/) })
})

it('F16 a tool that survives SIGKILL is not started again until it has exited', async () => {
  const started: EventEmitter[] = []
  let kills = 0
  const run = createToolRunner({
    timeoutMs: 10,
    clock: systemClock,
    start: () => {
      const child = Object.assign(new EventEmitter(), { stdout: null, stderr: null, unref: () => undefined })
      started.push(child)
      return { child: child as unknown as ChildProcess, kill: () => (kills += 1) }
    },
  })
  expect(await run(shell(''))).toMatchObject({ kind: 'failed' })
  expect(await run(shell(''))).toEqual({ kind: 'failed', reason: '/bin/sh still hangs from an earlier run' })
  expect(started).toHaveLength(1)
  expect(kills).toBe(1)
  started[0]?.emit('exit', null, 'SIGKILL')
  void run(shell(''))
  expect(started).toHaveLength(2)
})
