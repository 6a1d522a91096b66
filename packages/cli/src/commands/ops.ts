// `muster ops …`: what was asked for, and what came of it.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { NodeId, OperationFilter, operationRoutes, type OperationView } from '@muster/protocol'
import { findByName } from '../arguments.ts'
import {
  operationArgument,
  operationColumns,
  parseOperationId,
  renderOperation,
  stateText,
  titleOf,
} from '../operations/describe-operation.ts'
import { followMode, followOptions, followStarted, watchOperations } from '../operations/follow-started.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand, defineGroup } from './command.ts'

export function ops(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'ops', summary: 'List, watch, retry and cancel operations' })
  for (const define of [opsLs, opsShow, opsWatch, opsRetry, opsCancel]) define(group, shell)
}

// `muster ops ls`.

const opsLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List operations, the newest first',
    options: [new Option('--state <state>', 'active: running and in the background').choices(OperationFilter.options).default('active')],
    examples: ['muster ops ls --state finished'],
    run: async ({ api, print, option }) => {
      const state = OperationFilter.parse(option('state'))
      const { raw, body } = await api.call(operationRoutes.list, { query: { state } })
      if (print.format === 'text' && body.operations.length === 0)
        return print.remark(state === 'active' ? 'nothing is going on; `muster ops ls --state all` shows what was' : 'no operations')
      print.result(raw, () => renderTable(operationColumns(shell.clock), body.operations, print.width))
    },
  })

// `muster ops show`.

const opsShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show an operation, and how it stands on each node',
    arguments: [operationArgument],
    run: async ({ api, print, words: [wanted] }) => {
      const { raw, body } = await api.call(operationRoutes.get, { params: { id: parseOperationId(wanted) } })
      print.result(raw, () => renderOperation(body, { now: shell.clock.now(), width: print.width }))
    },
  })

// `muster ops watch`.

const opsWatch = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'watch',
    summary: 'Follow an operation, or all that are active now, to the end',
    details:
      'On a terminal with a bar per node, otherwise a line per change; with -o json an object per line. Ctrl-C stops watching and nothing else. Ends with 0 done, 1 failed or cancelled, 3 still going on.',
    arguments: [['[operation]', 'its id; without it, all that are active']],
    run: async (call) => {
      const { api, print, words } = call
      const { operations } =
        words[0] === undefined
          ? (await api.call(operationRoutes.list, { query: { state: 'active' } })).body
          : { operations: [(await api.call(operationRoutes.get, { params: { id: parseOperationId(words[0]) } })).body] }
      if (operations.length === 0) return print.remark('nothing is going on')
      await watchOperations(
        call,
        operations.map((operation) => operation.id),
      )
    },
  })

// `muster ops retry`.

const opsRetry = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'retry',
    summary: 'Try an operation again where it failed',
    arguments: [operationArgument],
    options: [new Option('--node <node>', 'only on this node, by id or by a name that only one has'), ...followOptions()],
    examples: ['muster ops retry op-7d3k2m --node gpu-1'],
    run: async (call) => {
      const mode = followMode(call)
      const id = parseOperationId(call.words[0])
      const body = await nodeOf(call, id)
      const { raw } = await call.api.call(operationRoutes.retry, { params: { id }, body, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [id] })
    },
  })

/** Among the nodes of the operation: another one can't be meant, and one that was removed still has its name there. */
async function nodeOf({ api, option }: ClientCall, id: OperationView['id']): Promise<{ node_id?: NodeId }> {
  const wanted = option('node')
  if (wanted === undefined) return {}
  const { body } = await api.call(operationRoutes.get, { params: { id } })
  const named = body.nodes.map((node) => ({ id: node.node_id, name: node.node_name }))
  return { node_id: NodeId.parse(findByName('node', named, wanted).id) }
}

// `muster ops cancel`.

const opsCancel = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'cancel',
    summary: 'Call an operation off: no further tries, and what runs is told to stop',
    details: 'What has been done stays done. A node that is away is told when it is back.',
    arguments: [operationArgument],
    run: async ({ api, print, words: [wanted] }) => {
      const id = parseOperationId(wanted)
      const { raw, body } = await api.call(operationRoutes.cancel, { params: { id }, body: {}, idempotencyKey: newId() })
      print.result(raw, () => `${titleOf(body)} (${body.id}) is ${stateText(body)}`)
      if (body.state === 'running' || body.state === 'background')
        print.remark(`the nodes that work on it are told; \`muster ops watch ${body.id}\` shows when they stopped`)
    },
  })
