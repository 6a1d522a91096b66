// `muster ops …`: operations and their outcome on each node.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { NodeId, OperationFilter, operationRoutes, type OperationView } from '@muster/protocol'
import { findByName, operationArgument, parseOperationId } from '../arguments.ts'
import { operationColumns, renderHistory, renderOperation, stateText, titleOf } from '../operations/describe-operation.ts'
import { followMode, followOptions, followStarted, watchOperations } from '../operations/follow-started.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, type ClientCall, defineGroup } from './command.ts'

export function ops(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'ops', summary: 'List, watch, retry and cancel operations' })
  addCommands(group, shell, [opsLs, opsShow, opsWatch, opsRetry, opsCancel])
}

const opsLs: ClientCommand = {
  name: 'ls',
  summary: 'List operations, the newest first',
  options: [new Option('--state <state>', 'active means running and in the background').choices(OperationFilter.options).default('active')],
  examples: ['muster ops ls --state finished'],
  run: async ({ shell, api, print, option }) => {
    const state = OperationFilter.parse(option('state'))
    const { raw, body } = await api.call(operationRoutes.list, { query: { state } })
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
        ? (await api.call(operationRoutes.list, { query: { state: 'active' } })).body
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
  summary: 'Retry an operation on the nodes where it failed',
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
