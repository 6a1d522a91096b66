// `muster nodes drain` and `nodes show` against a scripted controller: what is followed, what is said, and how it ends.
import { modelRoutes, nodeRoutes, type ReplicaView } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { modelView, replicaView } from './model-views.ts'
import { type Result, runInProcess } from './run-in-process.ts'
import { nodeView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
beforeEach(async () => {
  controller = await startScriptedController()
})
afterEach(() => controller[Symbol.asyncDispose]())

const muster = (...args: string[]): Promise<Result> => runInProcess(args, { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const draining = nodeView({ status: 'draining', status_reason: 'drained by an administrator', draining: true })
const { id } = draining
const noPlace = {
  ...{ code: 'no_capacity', message: 'no node can run tiny: gpu-2: 2 GB are free', at: '2030-01-01T00:00:00Z' },
  ...{ next_retry_at: '2030-01-01T00:00:10Z', attempts: 0 },
}

/** A node that has these, one list after the other; the last one stays. */
function script(lists: readonly (readonly ReplicaView[])[], { node = draining, model = modelView() } = {}): void {
  let at = 0
  controller.answer(nodeRoutes.list, { nodes: [node] })
  controller.answer(nodeRoutes.get, node)
  controller.answer(nodeRoutes.drain, draining)
  controller.answer(modelRoutes.get, model)
  controller.reply(nodeRoutes.models, (_, response) => {
    const replicas = lists[Math.min(at, lists.length - 1)] ?? []
    at += 1
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ replicas }))
  })
}

describe('nodes drain', () => {
  it('follows until no replica is left, a line for each change', async () => {
    script([
      [replicaView(), replicaView({ id: 'r-2', model: 'team/big', in_flight: 0 })],
      [replicaView({ state: 'draining', in_flight: 1 })],
      [],
    ])
    expect(await muster('nodes', 'drain', 'gpu-1')).toEqual({
      code: 0,
      stdout: [
        `gpu-1 (${id}) is draining: drained by an administrator`,
        'gpu-1: 2 replicas left: tiny (ready, 2 requests), team/big (ready)',
        'gpu-1: 1 replica left: tiny (draining, 1 request)',
        'gpu-1: drained, safe to switch off: no replica is left',
        '',
      ].join('\n'),
      stderr: '',
    })
    expect(controller.asked.filter(({ method }) => method === 'POST')).toMatchObject([{ path: `/api/nodes/${id}/drain` }])
  })

  it('ends with 3 when the remaining replicas wait for a node, and prints the model and the reason', async () => {
    script([[replicaView({ in_flight: 0 })]], { model: modelView({ failure: noPlace }) })
    const { code, stdout, stderr } = await muster('nodes', 'drain', 'gpu-1')
    expect(code).toBe(3)
    expect(stdout).toContain('gpu-1: 1 replica left: tiny (ready)\n')
    expect(stderr).toContain('tiny keeps serving until another node has room: no node can run tiny: gpu-2: 2 GB are free\n')
    expect(stderr).toContain(`muster nodes resume ${id}`)
  })

  it('waits for that too with --wait, for at most the given time', async () => {
    script([[replicaView()], [replicaView()], []], { model: modelView({ failure: noPlace }) })
    const { code, stderr } = await muster('nodes', 'drain', 'gpu-1', '--wait')
    expect({ code, reasons: stderr.split('\n').filter((line) => line.startsWith('tiny keeps serving')).length }).toEqual({
      code: 0,
      reasons: 1,
    })
    script([[replicaView()]], { model: modelView({ failure: noPlace }) })
    expect((await muster('nodes', 'drain', '--wait=600ms', 'gpu-1')).code).toBe(3)
  })

  it('follows nothing with --no-wait', async () => {
    script([[replicaView()]])
    expect(await muster('nodes', 'drain', 'gpu-1', '--no-wait')).toEqual({
      ...{ code: 0, stderr: '' },
      stdout: `gpu-1 (${id}) is draining: drained by an administrator\n`,
    })
    expect(controller.asked.some(({ path }) => path.endsWith('/models'))).toBe(false)
  })

  it.each([
    ['says so and ends with 1 when somebody resumes it', nodeView(), 1, /no longer draining/],
    [
      'leaves a node that went away to the background',
      nodeView({ status: 'unhealthy', status_reason: 'silent', draining: true }),
      3,
      /gpu-1 is unhealthy \(silent\): its replicas end when it is back/,
    ],
  ])('%s', async (_, node, code, said) => {
    script([[replicaView()]], { node })
    const result = await muster('nodes', 'drain', 'gpu-1')
    expect(result.code).toBe(code)
    expect(result.stdout + result.stderr).toMatch(said)
  })

  it('prints one object with -o json: the node, and its remaining replicas', async () => {
    script([[replicaView()], []])
    const { code, stdout } = await muster('nodes', 'drain', 'gpu-1', '-o', 'json')
    expect({ code, json: JSON.parse(stdout) as unknown }).toEqual({ code: 0, json: { ...draining, replicas: [] } })
  })

  it('goes on when the controller is away for a while', async () => {
    script([[replicaView()]])
    const running = muster('nodes', 'drain', 'gpu-1', '--wait')
    await waitFor(() => controller.asked.some(({ path }) => path.endsWith('/models')), { what: 'it to follow' })
    await controller.goAway()
    script([[]])
    await controller.comeBack()
    expect(await running).toMatchObject({ code: 0, stdout: expect.stringContaining('no replica is left') as string })
  })
})

describe('nodes show', () => {
  it('lists the replicas on it', async () => {
    const digest = `sha256:${'d'.repeat(64)}`
    script([[replicaView({ backend_digest: digest }), replicaView({ id: 'r-2', model: 'team/big', state: 'draining', reachable: false })]])
    const { stdout } = await muster('nodes', 'show', 'gpu-1')
    expect(stdout).toMatch(/^r-1 +tiny +ready +yes +2 +aaaaaaaaaaaa +dddddddddddd/m)
    expect(stdout).toMatch(/^r-2 +team\/big +draining +no +2 +aaaaaaaaaaaa +-/m)
  })
})
