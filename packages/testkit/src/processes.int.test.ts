import { identifyProcess } from '@muster/host'
import { afterAll, describe, expect, it } from 'vitest'
import { createProcesses } from './processes.ts'
import { waitFor } from './wait-for.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

const isRunning = (pid: number): boolean => identifyProcess(pid) !== null

describe('createProcesses', () => {
  it('runs children with the Node of this repository and without the settings of the developer', async () => {
    process.env['MUSTER_PORT'] = '1'
    const child = await processes.start('node', {
      args: ['-p', '[process.version, process.env.MUSTER_PORT, process.env.GIVEN]'],
      env: { GIVEN: 'yes' },
    })
    expect(await child.exited).toEqual({ code: 0, signal: null })
    expect(child.stdout()).toMatch(/^\[ 'v(2[4-9]|[3-9]\d)\..*', undefined, 'yes' \]/)
  })

  it('shows the last lines when the process ends without the expected output', async () => {
    const child = await processes.start('sh', { args: ['-c', 'echo out; echo err >&2; exit 3'] })
    await expect(child.waitForOutput(/ready/)).rejects.toThrow(/ended \(3\) without \/ready\/ in its output: sh -c .*\nout\nerr/)
  })

  it('names a missing program', async () => {
    await expect(processes.start('no-such-program')).rejects.toThrow('cannot start no-such-program')
  })

  it('ends the children of a process along with it', async () => {
    const child = await processes.start('sh', { args: ['-c', 'sleep 100 & echo "child $!"; wait'] })
    const [, grandchild] = await child.waitForOutput(/child (\d+)/)
    await child.stop()
    await waitFor(() => !isRunning(Number(grandchild)), { what: 'the grandchild to be gone' })
    expect(child.hasExited()).toBe(true)
  })

  it('kills a process that ignores SIGTERM, and reports that', async () => {
    const child = await createProcesses().start('sh', {
      args: ['-c', 'trap "" TERM; echo deaf; while :; do sleep 1; done'],
      stopTimeoutMs: 100,
    })
    await child.waitForOutput(/deaf/)
    await expect(child.stop()).rejects.toThrow(/did not end within 100 ms of SIGTERM: sh .*\ndeaf/s)
    expect(isRunning(child.pid)).toBe(false)
  })
})
