import { EventEmitter } from 'node:events'
import type { ChildProcess } from 'node:child_process'
import { systemClock } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { createToolRunner, startTool } from './run-tool.ts'

const shell = (script: string) => ({ program: '/bin/sh', args: ['-c', script] })
const real = (timeoutMs: number) => createToolRunner({ start: startTool({ PATH: '/usr/bin:/bin', MUSTER_TOKEN: 'canary', HOME: '/h' }), timeoutMs, clock: systemClock })

describe('a tool', () => {
  it('gives what it printed', async () => {
    expect(await real(5000)(shell('echo one; echo two'))).toEqual({ kind: 'ok', stdout: 'one\ntwo\n' })
  })

  it('that is not installed is absent', async () => {
    expect(await real(5000)({ program: 'no-such-tool-anywhere', args: [] })).toEqual({ kind: 'absent' })
  })

  it('that fails says why', async () => {
    expect(await real(5000)(shell('echo no driver >&2; exit 9'))).toEqual({ kind: 'failed', reason: '/bin/sh ended with exit code 9: no driver' })
  })

  it('sees no secret of the environment', async () => {
    expect(await real(5000)(shell('echo "$HOME:$MUSTER_TOKEN:$LC_ALL"'))).toEqual({ kind: 'ok', stdout: '/h::C\n' })
  })

  it('that floods us is cut off', async () => {
    expect(await real(5000)(shell('yes'))).toMatchObject({ kind: 'failed', reason: expect.stringContaining('more than') })
  })

  it('that hangs is ended, with what it started holding the pipes open, and may be run again', async () => {
    const run = real(50)
    expect(await run(shell('sleep 1000'))).toMatchObject({ kind: 'failed', reason: expect.stringContaining('50 ms') })
    await expect.poll(() => run(shell('echo back')), { interval: 5 }).toEqual({ kind: 'ok', stdout: 'back\n' })
  })
})

it('F16 a tool that not even SIGKILL ends is not started a second time until it is gone', async () => {
  const started: FakeChild[] = []
  const run = createToolRunner({
    timeoutMs: 10,
    clock: systemClock,
    start: () => {
      const child = new FakeChild()
      started.push(child)
      return child as unknown as ChildProcess
    },
  })
  expect(await run(shell(''))).toMatchObject({ kind: 'failed' })
  expect(await run(shell(''))).toEqual({ kind: 'failed', reason: '/bin/sh hangs since an earlier run' })
  expect(started).toHaveLength(1)
  expect(started[0]?.killed).toEqual(['SIGKILL'])
  started[0]?.emit('exit', null, 'SIGKILL')
  void run(shell(''))
  expect(started).toHaveLength(2)
})

class FakeChild extends EventEmitter {
  readonly pid = 1
  readonly stdout = null
  readonly stderr = null
  readonly killed: string[] = []
  kill(signal: string): void {
    this.killed.push(signal)
  }
  unref(): void {}
}
