// Following operations, against a scripted controller: how it ends, and what it comes through.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { backendRoutes, OperationId, operationRoutes, type OperationState, systemRoutes } from '@muster/protocol'
import { createProcesses, waitFor } from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Result, runInProcess } from './run-in-process.ts'
import { operationNode, operationView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

const processes = createProcesses()
let controller: ScriptedController
const id = OperationId.parse('op-1')
beforeEach(async () => {
  controller = await startScriptedController()
  controller.answer(backendRoutes.install, { operation_id: id })
  controller.answer(operationRoutes.get, operationView())
})
afterEach(() => controller[Symbol.asyncDispose]())
afterAll(() => processes.stopAll())

const env = () => ({ MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const muster = (...args: string[]): Promise<Result> => runInProcess(args, env())
const install = (...args: string[]): Promise<Result> => muster('backends', 'install', 'llama', ...args)
const finished = (state: OperationState = 'succeeded') =>
  operationView({ state, message: '1 of 1 nodes done', nodes: [operationNode({ status: 'success', phase: null })] })
const followed = () => waitFor(() => controller.followers() === 1, { what: 'somebody who follows' })
/** At first and once the stream is there: from now on only events bring something. */
const read = () => waitFor(() => reads() >= 2, { what: 'the second reading' })
const reads = () => controller.asked.filter(({ path }) => path === '/api/operations/op-1').length

/** As a proxy whose controller is away does, until that many have tried. */
async function breakConnections(port: number, count: number): Promise<void> {
  let broken = 0
  const server = createServer((socket) => {
    broken += 1
    socket.destroy()
  }).listen(port, '127.0.0.1')
  await waitFor(() => broken >= count, { what: `${count} tries` })
  const closed = once(server, 'close')
  server.close()
  await closed
}

describe('the exit code', () => {
  it.each([
    ['succeeded', [], 0],
    ['failed', [], 1],
    ['cancelled', [], 1],
    ['background', [], 3],
    ['succeeded', ['--wait'], 0],
    ['failed', ['--wait=1h'], 1],
    ['running', ['--wait=50ms'], 3],
    ['background', ['--wait=50ms'], 3],
    ['background', ['--wait', '50ms'], 3],
  ] as const)('%s with %j is %d', async (state, args, code) => {
    controller.answer(operationRoutes.get, operationView({ state }))
    const result = await install(...args)
    expect(result.code).toBe(code)
    // Without an answer in time, only the id is known.
    if (code === 3) expect(result.stderr).toMatch(/^(install llama|op-1) continues in the background: `muster ops watch op-1` follows it$/m)
    if (state === 'failed') expect(result.stderr).toContain('muster ops retry op-1')
  })

  it('of several is the worst', async () => {
    const [one, two] = [OperationId.parse('op-1'), OperationId.parse('op-2')]
    controller.answer(backendRoutes.upgradeAll, {
      operations: [
        { backend: 'a', operation_id: one },
        { backend: 'b', operation_id: two },
      ],
    })
    const states: Record<string, OperationState> = { 'op-1': 'background', 'op-2': 'succeeded' }
    controller.reply(operationRoutes.get, ({ path }, response) => {
      const each = path.split('/').at(-1) ?? ''
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(operationView({ id: each, state: states[each], kind: 'backend.upgrade' })))
    })
    expect((await muster('backends', 'upgrade', '--all')).code).toBe(3)
    states['op-2'] = 'failed'
    const { code, stdout } = await muster('backends', 'upgrade', '--all', '-o', 'json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ operations: [{ id: 'op-1' }, { id: 'op-2', state: 'failed' }] })
  })
})

describe('following', () => {
  it('shows each change as a line, and ends with the operation', async () => {
    const running = install()
    await followed()
    await read()
    controller.emit({ type: 'operation', id: '5', data: operationView({ id: 'op-other', state: 'failed' }) })
    controller.emit({ type: 'operation', data: operationView({ nodes: [operationNode({ percentage: 60, current: 2.4e9 })] }) })
    controller.emit({ type: 'operation', id: '6', data: finished() })
    expect(await running).toEqual({
      code: 0,
      stdout: [
        'install llama: gpu-1: downloading, 25 % (1 GB of 4 GB)',
        'install llama: running: 0 of 1 nodes done',
        'install llama: gpu-1: downloading, 60 % (2.4 GB of 4 GB)',
        'install llama: gpu-1: success',
        'install llama: succeeded: 1 of 1 nodes done',
        '',
      ].join('\n'),
      stderr: '',
    })
  })

  it('continues with --wait through background work', async () => {
    const running = install('--wait')
    await followed()
    await read()
    controller.emit({ type: 'operation', id: '5', data: operationView({ state: 'background', message: 'node offline' }) })
    controller.emit({ type: 'operation', id: '6', data: operationView() })
    controller.emit({ type: 'operation', id: '7', data: finished() })
    const { code, stdout } = await running
    expect(code).toBe(0)
    const states = stdout.match(/(?<=^install llama: )(running|background|succeeded)/gm)
    expect(states).toEqual(['running', 'background', 'running', 'succeeded'])
  })

  it('prints with -o json the operation as it ended, and nothing else', async () => {
    const running = install('-o', 'json')
    await followed()
    controller.emit({ type: 'operation', id: '6', data: { ...finished(), added_later: 1 } })
    const { stdout, stderr } = await running
    expect(JSON.parse(stdout)).toEqual({ ...finished(), added_later: 1 })
    expect(stderr).toBe('')
  })

  it('prints with --no-wait the ID, with -o json the answer of the server', async () => {
    expect(await install('--no-wait')).toEqual({ code: 0, stdout: 'op-1\n', stderr: '' })
    expect(JSON.parse((await install('--no-wait', '-o', 'json')).stdout)).toEqual({ operation_id: 'op-1' })
    expect(controller.asked.every(({ path }) => path === '/api/backends/install')).toBe(true)
  })

  it('survives a restart of the controller, and finds an end without an event', async () => {
    const running = install()
    await followed()
    controller.emit({ type: 'operation', id: '7', data: operationView({ progress: 30 }) })
    await read()
    await controller.goAway()
    await breakConnections(Number(new URL(controller.url).port), 4)
    controller.answer(operationRoutes.get, finished())
    await controller.comeBack()
    const { code, stderr } = await running
    expect(code).toBe(0)
    expect(stderr.match(/connection lost/g)).toHaveLength(1)
  })

  it('goes on after the event that it saw last', async () => {
    const running = install()
    await followed()
    await read()
    controller.emit({ type: 'operation', id: '7', data: operationView({ progress: 30, nodes: [operationNode({ percentage: 30 })] }) })
    const before = reads()
    // Makes it read, and so shows that it has got so far.
    controller.emit({ type: 'reset', data: {} })
    await waitFor(() => reads() > before, { what: 'a reading after the event' })
    controller.dropFollowers()
    await waitFor(() => controller.followers() === 0, { what: 'the end of the first stream' })
    await followed()
    const streams = controller.asked.filter(({ path }) => path === '/api/events')
    expect(streams.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '7'])
    controller.emit({ type: 'operation', id: '8', data: finished() })
    expect((await running).code).toBe(0)
  })

  it('needs no stream', async () => {
    controller.refuse(systemRoutes.events, 429, { code: 'too_many', message: 'too many streams' })
    const running = install()
    await waitFor(() => reads() >= 1, { what: 'the first reading' })
    controller.answer(operationRoutes.get, finished())
    expect(await running).toMatchObject({ code: 0, stderr: '' })
  })

  it('is held up by no answer that hangs', async () => {
    const running = install()
    await followed()
    controller.reply(operationRoutes.get, () => undefined)
    controller.emit({ type: 'reset', data: {} })
    const before = reads()
    await waitFor(() => reads() > before, { what: 'a reading that hangs' })
    controller.emit({ type: 'operation', id: '9', data: finished() })
    expect((await running).code).toBe(0)
  })

  it('ends when the operation is gone, or the key no longer good', async () => {
    const running = install()
    await followed()
    controller.refuse(operationRoutes.get, 404, { code: 'not_found', message: 'there is no operation op-1' })
    controller.emit({ type: 'operation', id: '9', data: { id: 'op-1', deleted: true } })
    expect(await running).toMatchObject({ code: 1, stderr: expect.stringContaining('there is no operation op-1 (not_found)') as string })
  })

  it('on Ctrl-C leaves the operation running, and prints how to follow it again', async () => {
    const run = await processes.muster(['backends', 'install', 'llama', '--wait'], { env: env() })
    await run.waitForOutput(/downloading/)
    run.kill('SIGINT')
    expect(await run.exited).toEqual({ code: 3, signal: null })
    expect(run.stderr()).toBe('detached; install llama continues in the background: `muster ops watch op-1` follows it\n')
    expect(controller.asked.some(({ path }) => path.endsWith('/cancel'))).toBe(false)
  })

  it.each([
    ['', true],
    ['1', false],
  ])('draws a bar per node on a terminal; NO_COLOR=%j has colors: %s', async (noColor, hasColors) => {
    const main = join(import.meta.dirname, '..', 'src', 'main.ts')
    const run = await processes.start('script', {
      args: ['-qec', `stty cols 100 rows 24; exec '${process.execPath}' '${main}' backends install llama`, '/dev/null'],
      env: { ...env(), TERM: 'xterm', NO_COLOR: noColor },
    })
    await run.waitForOutput(/━/)
    await followed()
    const half = operationNode({ percentage: 50, current: 2e9 })
    controller.emit({ type: 'operation', data: operationView({ progress: 50, nodes: [half] }) })
    await run.waitForOutput(/ 50 %/)
    controller.emit({ type: 'operation', id: '9', data: finished('failed') })
    expect((await run.exited).code).toBe(1)
    const text = run.stdout()
    expect(text).toContain('\u001b[2A')
    expect(text.includes('\u001b[32m')).toBe(hasColors)
    const last = stripVTControlCharacters(text.slice(text.lastIndexOf('\u001b[2A')))
    expect(last).toMatch(/^install llama {2}failed: 1 of 1 nodes done\r\n {2}gpu-1 {2}success\r\n/)
  })
})

describe('ops watch', () => {
  it('follows all that are active, to the end', async () => {
    controller.answer(operationRoutes.list, { operations: [operationView({ state: 'background' })] })
    controller.answer(operationRoutes.get, operationView({ state: 'background' }))
    const running = muster('ops', 'watch')
    await followed()
    controller.emit({ type: 'operation', id: '9', data: finished() })
    expect((await running).code).toBe(0)
  })

  it('prints with -o json an object per line', async () => {
    const running = muster('ops', 'watch', 'op-1', '-o', 'json')
    await waitFor(() => reads() >= 3, { what: 'the first line' })
    controller.emit({ type: 'operation', id: '9', data: finished('cancelled') })
    const { code, stdout } = await running
    expect(code).toBe(1)
    const objects = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { state: string })
    expect(objects.map(({ state }) => state)).toEqual(['running', 'cancelled'])
  })

  it('has nothing to do when nothing is going on', async () => {
    controller.answer(operationRoutes.list, { operations: [] })
    expect(await muster('ops', 'watch')).toEqual({ code: 0, stdout: '', stderr: 'no active operations\n' })
  })
})
