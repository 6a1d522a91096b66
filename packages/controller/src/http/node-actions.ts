// POST /api/nodes/actions: one action on many nodes. Each node has a transaction of its own, so one that fails does not stop the
// others, and a request that is repeated after a crash does the rest.
import { errorMessage, inLanes, type Log } from '@muster/host'
import { nodeActionRoutes as routes, type NodeActionRequest, type NodeActionResult } from '@muster/protocol'
import { principalName } from '../auth/principal.ts'
import { type ActionTarget, chooseTargets, editLabels, expectOutcome, resultOf, unknownNode } from '../nodes/node-actions.pure.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint, findStoredAnswer, idempotencyKeyOf } from './endpoint.ts'
import { HttpError, toHttpError } from './http-error.ts'

export interface NodeActionDeps {
  readonly nodes: NodeStore
  readonly keys: Pick<SubmissionStore, 'remembered' | 'rememberAnswer'>
  readonly log: Log
}

/** Few, so that other requests find a free connection to the database. */
const nodesAtOnce = 4

export function nodeActionEndpoints({ nodes, keys, log }: NodeActionDeps): Endpoint[] {
  return [
    endpoint(routes.run, async ({ body, principal, headers }) => {
      const key = idempotencyKeyOf({ headers, principal }, ['node action', body])
      const stored = await findStoredAnswer(keys, key)
      if (stored !== null) return stored
      const choice = chooseTargets(await nodes.list(), body)
      if (choice.kind === 'refused')
        throw new HttpError(choice.code === 'no_match' ? 404 : 409, choice.code, choice.message, { details: { count: choice.count } })
      const isDryRun = body.dry_run === true
      const by = principalName(principal)
      const results = isDryRun
        ? choice.targets.map((target) => expectOutcome(body, target))
        : await inLanes(choice.targets, { atOnce: nodesAtOnce }, (target) => act(target, body, { nodes, by, log }))
      const answer = { dry_run: isDryRun, results }
      if (key === null || isDryRun) return answer
      await keys.rememberAnswer({ ...key, status: 200, response: answer })
      return new Answer(200, answer)
    }),
  ]
}

type ActDeps = Readonly<{ nodes: NodeStore; by: string; log: Log }>

async function act(target: ActionTarget, request: NodeActionRequest, { nodes, by, log }: ActDeps): Promise<NodeActionResult> {
  const { id, node } = target
  if (node === null) return unknownNode(id)
  try {
    const isChanged = await apply(node, request, { nodes, by })
    if (typeof isChanged !== 'boolean') return isChanged
    const result = resultOf(request.action, node, isChanged)
    if (isChanged) log.info('node changed', { node: id, name: node.name, action: request.action, by })
    return isChanged || (await nodes.find(id)) !== null ? result : unknownNode(id, node.name)
  } catch (error) {
    log.warn('node action failed', { node: id, action: request.action, error })
    return { node_id: id, node_name: node.name, outcome: 'failed', message: toHttpError(error).message || errorMessage(error) }
  }
}

/** False: nothing had to be done, or the node is gone. */
async function apply(
  node: NodeRecord,
  request: NodeActionRequest,
  { nodes, by }: Pick<ActDeps, 'nodes' | 'by'>,
): Promise<boolean | NodeActionResult> {
  switch (request.action) {
    case 'approve':
      return await nodes.approve(node.id, by)
    case 'drain':
      return await nodes.setDraining(node.id, true)
    case 'resume':
      return await nodes.setDraining(node.id, false)
    case 'remove':
      return await nodes.remove(node.id)
    case 'label':
      return await label(node, request, nodes)
  }
}

async function label(node: NodeRecord, request: NodeActionRequest, nodes: NodeStore): Promise<boolean | NodeActionResult> {
  let refusal: string | null = null
  let isChanged = false
  await nodes.editLabels(node.id, (before) => {
    const edit = editLabels(before, request)
    refusal = edit.outcome === 'refused' ? edit.message : null
    isChanged = edit.outcome === 'changed'
    return edit.outcome === 'changed' ? edit.overrides : null
  })
  return refusal === null ? isChanged : { node_id: node.id, node_name: node.name, outcome: 'failed', message: refusal }
}
