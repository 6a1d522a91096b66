// `muster ops …`: operations and their outcome on each node.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { NodeId, type OperationControl, OperationFilter, operationRoutes, type OperationView } from '@muster/protocol'
import { findByName, operationArgument, parseOperationId } from '../arguments.ts'
import { operationColumns, renderHistory, renderOperation, stateText, titleOf } from '../operations/describe-operation.ts'
import { followMode, followOptions, followStarted, watchOperations } from '../operations/follow-started.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, type ClientCall, defineGroup } from './command.ts'

export function ops(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'ops', summary: 'List, watch, retry, pause and cancel operations' })
  addCommands(group, shell, [opsLs, opsShow, opsWatch, opsRetry, opsPause, opsResume, opsCancel, opsDismiss])
}

const opsLs: ClientCommand = {
  name: 'ls',
  summary: 'List operations, the newest first',
  options: [
    new Option('--state <state>', 'active means running and in the background').choices(OperationFilter.options).default('active'),
    new Option('--dismissed', 'also those that were dismissed'),
  ],
  examples: ['muster ops ls --state finished'],
  run: async ({ shell, api, print, option, flag }) => {
    const state = OperationFilter.parse(option('state'))
    const { raw, body } = await api.call(operationRoutes.list, { query: { state, dismissed: flag('dismissed') } })
    if (print.format === 'text' && body.operations.length === 0)
      return print.remark(state === 'active' ? 'no active operations; `muster ops ls --state all` lists all' : 'no operations')
    print.result(raw, () => renderTable(operationColumns(shell.clock), body.operations, print.width))
  },
}

const opsShow: ClientCommand = {
  name: 'show',
  summary: 'Show an operation, and its status on each node',
  arguments: [operationArgument],
  options: [new Option('--history', 'also every step on every node, for operations about backends')],
  run: async ({ shell, api, print, flag, words: [wanted] }) => {
    const id = parseOperationId(wanted)
    const { raw, body } = await api.call(operationRoutes.get, { params: { id } })
    const shown = (): string => renderOperation(body, { now: shell.clock.now(), width: print.width })
    if (!flag('history')) return print.result(raw, shown)
    const history = await api.call(operationRoutes.history, { params: { id } })
    print.result(history.raw, () => `${shown()}\n\n${renderHistory(body, history.body.events, print.width)}`)
  },
}

const opsWatch: ClientCommand = {
  name: 'watch',
  summary: 'Follow an operation, or all that are active now, to the end',
  details:
    'On a terminal a bar per node, otherwise a line per change; with -o json an object per line. Ctrl-C stops only the watching. Exits with 0 done, 1 failed or cancelled, 3 still in progress.',
  arguments: [['[operation]', 'its id; without it, all active operations']],
  run: async (call) => {
    const { api, print, words } = call
    const { operations } =
      words[0] === undefined
        ? (await api.call(operationRoutes.list, { query: { state: 'active', dismissed: false } })).body
        : { operations: [(await api.call(operationRoutes.get, { params: { id: parseOperationId(words[0]) } })).body] }
    if (operations.length === 0) return print.remark('no active operations')
    await watchOperations(
      call,
      operations.map((operation) => operation.id),
    )
  },
}

const opsRetry: ClientCommand = {
  name: 'retry',
  summary: 'Retry an operation on the nodes where it failed, now',
  details: 'A node that waits for its next attempt is tried now. A node that failed for good gets all its attempts again.',
  arguments: [operationArgument],
  options: [new Option('--node <node>', 'only on this node, by id or unique name'), ...followOptions()],
  examples: ['muster ops retry op-7d3k2m --node gpu-1'],
  run: async (call) => {
    const mode = followMode(call)
    const id = parseOperationId(call.words[0])
    const body = await nodeOf(call, id)
    const { raw } = await call.api.call(operationRoutes.retry, { params: { id }, body, idempotencyKey: newId() })
    await followStarted(call, mode, { raw, ids: [id] })
  },
}

/** Looks among the nodes of the operation, where a removed node still has its name. */
async function nodeOf({ api, option }: ClientCall, id: OperationView['id']): Promise<{ node_id?: NodeId }> {
  const wanted = option('node')
  if (wanted === undefined) return {}
  const { body } = await api.call(operationRoutes.get, { params: { id } })
  const named = body.nodes.map((node) => ({ id: node.node_id, name: node.node_name }))
  return { node_id: NodeId.parse(findByName('node', named, wanted).id) }
}

/** A command that changes how an operation continues or is listed. */
const controlCommand = (
  name: OperationControl,
  { summary, details, done }: Record<'summary' | 'details' | 'done', string>,
): ClientCommand => ({
  name,
  summary,
  details,
  arguments: [operationArgument],
  run: async ({ api, print, words: [wanted] }) => {
    const { raw, body } = await api.call(operationRoutes[name], { params: { id: parseOperationId(wanted) }, body: {} })
    print.result(raw, () => `${titleOf(body)} (${body.id}) is ${done}${name === 'dismiss' ? '' : `; ${stateText(body)}`}`)
  },
})

const opsPause = controlCommand('pause', {
  summary: 'Pause an operation: no further node is begun',
  details: 'Nodes that are working finish their attempt. The pause survives restarts of controllers and workers.',
  done: 'paused',
})

const opsResume = controlCommand('resume', {
  summary: 'Resume a paused operation',
  details: 'A node whose last attempt failed continues at the time of its next attempt; `muster ops retry` tries it now.',
  done: 'resumed',
})

const opsDismiss = controlCommand('dismiss', {
  summary: 'Dismiss a finished operation: lists leave it out',
  details: '`muster ops ls --state finished --dismissed` lists it still, until the history is deleted.',
  done: 'dismissed',
})

const opsCancel: ClientCommand = {
  name: 'cancel',
  summary: 'Cancel an operation: no further attempts, and running work is stopped',
  details: 'Completed work stays. A node that is away stops when it is back.',
  arguments: [operationArgument],
  run: async ({ api, print, words: [wanted] }) => {
    const id = parseOperationId(wanted)
    const { raw, body } = await api.call(operationRoutes.cancel, { params: { id }, body: {}, idempotencyKey: newId() })
    print.result(raw, () => `${titleOf(body)} (${body.id}) is ${stateText(body)}`)
    if (body.state === 'running' || body.state === 'background')
      print.remark(`the nodes are stopping; \`muster ops watch ${body.id}\` shows when they have stopped`)
  },
}
