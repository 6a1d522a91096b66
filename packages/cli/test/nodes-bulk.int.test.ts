// Actions on several nodes at a terminal: the preview, the question and the answer.
import { nodeActionRoutes, NodeId, nodeRoutes, type NodeActionResult } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Result, runInProcess } from './run-in-process.ts'
import { nodeView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
const result = (id: string, outcome: NodeActionResult['outcome'] = 'done'): NodeActionResult => ({
  ...{ node_id: NodeId.parse(id), node_name: id, outcome, message: 'would be removed' },
})
beforeEach(async () => {
  controller = await startScriptedController()
  controller.answer(nodeRoutes.list, { nodes: ['a', 'b'].map((id) => nodeView({ id: NodeId.parse(id), name: id })) })
  controller.answer(nodeActionRoutes.run, { dry_run: true, results: [result('a'), result('b')] })
})
afterEach(() => controller[Symbol.asyncDispose]())

const muster = (args: string[], typed: string | null = null): Promise<Result> =>
  runInProcess(args, { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' }, typed === null ? '' : { typed })
const sent = () => controller.asked.filter(({ method }) => method === 'POST').map(({ body }) => body)

describe('an action on several nodes', () => {
  it('lists the effects and asks at a terminal, and then concerns exactly the listed nodes', async () => {
    const removed = await muster(['nodes', 'rm', '--selector', 'rack=b2'], 'y')
    expect(removed).toMatchObject({ code: 0, stdout: expect.stringContaining('Remove 2 nodes? [y/N] ') as string })
    expect(removed.stderr).toContain('would be removed')
    expect(sent()).toEqual([
      { action: 'remove', selector: { rack: 'b2' }, dry_run: true },
      { action: 'remove', nodes: ['a', 'b'] },
    ])
  })

  it.each(['', 'n', 'maybe'])('changes nothing when the answer is %j', async (typed) => {
    expect(await muster(['nodes', 'drain', 'a', 'b'], typed)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('nothing was changed') as string,
    })
    expect(sent()).toEqual([{ action: 'drain', nodes: ['a', 'b'], dry_run: true }])
  })

  it('does not ask with --yes, without a terminal, or when nothing would change', async () => {
    expect((await muster(['nodes', 'drain', '--all', '--yes'], 'n')).code).toBe(0)
    expect((await muster(['nodes', 'drain', 'a', 'b'])).code).toBe(0)
    controller.answer(nodeActionRoutes.run, { dry_run: true, results: [result('a', 'unchanged'), result('b', 'unchanged')] })
    expect((await muster(['nodes', 'drain', 'a', 'b'], 'n')).code).toBe(0)
  })

  it('ends with 1 when a node failed, and prints the result of each', async () => {
    controller.answer(nodeActionRoutes.run, { dry_run: false, results: [result('a'), result('b', 'failed')] })
    expect(await muster(['nodes', 'label', 'a', 'b', 'tier=fast', '--yes'])).toMatchObject({
      ...{ code: 1, stderr: '1 done, 1 failed\n', stdout: expect.stringMatching(/^NAME.*\na .*done.*\nb .*failed/) as string },
    })
    expect(sent().at(-1)).toEqual({ action: 'label', nodes: ['a', 'b'], labels: { tier: 'fast' } })
  })

  it.each([
    [['nodes', 'rm', '--all'], '--yes'],
    [['nodes', 'rm', 'a', '--all'], 'one of the three'],
    [['nodes', 'drain', 'a', 'b', '--wait'], '--wait follows the drain of one node'],
    [['nodes', 'approve', '--selector', 'rack'], 'is not KEY=VALUE'],
  ])('refuses %j', async (args, reason) => {
    expect(await muster(args)).toMatchObject({ code: 2, stderr: expect.stringContaining(reason) as string })
  })
})
