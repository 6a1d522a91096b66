// `muster nodes ls --watch` as a user runs it.
import { join } from 'node:path'
import { nodeRoutes } from '@muster/protocol'
import { createProcesses, type StartedProcess, waitFor } from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { nodeView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

const processes = createProcesses()
let controller: ScriptedController
beforeEach(async () => {
  controller = await startScriptedController()
})
afterEach(() => controller[Symbol.asyncDispose]())
afterAll(() => processes.stopAll())

const healthy = nodeView()
const silent = nodeView({ status: 'unhealthy', status_reason: 'silent' })

async function watch(...args: string[]): Promise<StartedProcess> {
  controller.answer(nodeRoutes.list, { nodes: [healthy] })
  const run = await processes.muster(['nodes', 'ls', '--watch', ...args], { env: { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' } })
  await run.waitForOutput(/gpu-1/)
  return run
}

describe('nodes ls --watch', () => {
  it('adds a line for each change that is seen in the table, and ends with 0 on Ctrl-C', async () => {
    const run = await watch()
    controller.emit({ type: 'node', id: '1', data: { ...healthy, last_seen_at: '2031-01-01T00:00:00Z' } })
    controller.emit({ type: 'operation', id: '2', data: { id: 'x' } })
    controller.emit({ type: 'node', id: '3', data: silent })
    controller.emit({ type: 'node', id: '4', data: { id: healthy.id, deleted: true } })
    await run.waitForOutput(/is removed/)
    run.kill('SIGINT')
    expect(await run.exited).toEqual({ code: 0, signal: null })
    const lines = run.stdout().trimEnd().split('\n')
    expect(lines.map((line) => line.split(/ +/)[2])).toEqual(['STATUS', 'healthy', 'unhealthy', 'is'])
    expect(lines[2]?.indexOf('unhealthy')).toBe(lines[0]?.indexOf('STATUS'))
    expect(run.stderr()).toBe('')
  })

  it('on a terminal keeps one table up to date: ages grow by themselves, and a tick of the server starts them anew', async () => {
    const seenAt = (msAgo: number) => nodeView({ last_seen_at: new Date(Date.now() - msAgo).toISOString() })
    controller.answer(nodeRoutes.list, { nodes: [seenAt(30_000)] })
    const main = join(import.meta.dirname, '..', 'src', 'main.ts')
    const run = await processes.start('script', {
      args: ['-qec', `stty cols 100 rows 24; exec '${process.execPath}' '${main}' nodes ls --watch`, '/dev/null'],
      env: { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k', TERM: 'xterm' },
    })
    const ages = (): Set<number> => new Set([...run.stdout().matchAll(/healthy .* (\d+)s\r/g)].map(([, age]) => Number(age)))
    await waitFor(() => ages().size >= 3, { what: 'three ages without an event' })
    controller.emit({ type: 'node', data: seenAt(0) })
    await waitFor(() => [...ages()].some((age) => age < 10), { what: 'an age that began anew' })
    expect(run.stdout()).not.toContain(' (node-')
    await run.stop()
  })

  it('reads all again after a loss, so that nothing that happened meanwhile is missed', async () => {
    const run = await watch()
    controller.answer(nodeRoutes.list, { nodes: [silent, nodeView({ id: 'node-new', name: 'new' })] })
    controller.dropFollowers()
    await run.waitForOutput(/new +node-new/)
    expect(run.stdout()).toContain('unhealthy')
    expect(run.stderr()).toContain('connection lost')
    await run.stop()
  })

  it('prints one object per line with -o json, and only the requested --status', async () => {
    const run = await watch('-o', 'json', '--status', 'healthy')
    controller.emit({ type: 'node', id: '3', data: silent })
    await waitFor(() => run.stdout().trimEnd().split('\n').length === 2, { what: 'the second line' })
    expect(
      run
        .stdout()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([healthy, silent])
    await run.stop()
  })
})
