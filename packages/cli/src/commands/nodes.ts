// `muster nodes …`: the fleet.
import { type Command, Option } from 'commander'
import { nodeRoutes, NodeView } from '@muster/protocol'
import { fetchNode, nodeArgument, parseLabelArguments } from '../arguments.ts'
import { usageError } from '../cli-error.ts'
import { replicasOfNodeColumns } from '../models/describe-model.ts'
import { describeNode, labelLines, nodeColumns, renderNode } from '../nodes/describe-node.ts'
import { actOnNodes, bulkOptions, nodesArgument, singleNode, splitLabelWords } from '../nodes/act-on-nodes.ts'
import { followDrain } from '../nodes/follow-drain.ts'
import { followMode } from '../operations/follow-started.ts'
import { renderTable } from '../output/table.ts'
import { asObject } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, type ClientCall, defineGroup } from './command.ts'

export function nodes(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'nodes', summary: 'List, approve, drain, label and remove the machines of the fleet' })
  addCommands(group, shell, [
    nodesLs,
    nodesShow,
    nodesApprove,
    nodesDrain,
    nodesResume,
    nodesRm,
    nodesLabel,
    nodesVramBudget,
    nodesMaxReplicasPerModel,
  ])
}

const nodesLs: ClientCommand = {
  name: 'ls',
  summary: 'List the nodes',
  options: [
    new Option('--status <status>', 'only nodes of this status').choices(NodeView.shape.status.options),
    new Option(
      '--watch',
      'follow until Ctrl-C: updates the table in place; without a terminal, prints a line per change; with -o json, an object per line',
    ),
  ],
  examples: ['muster nodes ls --status pending', 'muster nodes ls --watch'],
  run: async (call) => {
    if (!call.flag('watch')) return listNodes(call)
    const { watchNodes } = await import('../nodes/watch-nodes.ts')
    return watchNodes(call)
  },
}

async function listNodes({ api, print, shell, option }: ClientCall): Promise<void> {
  const { raw, body } = await api.call(nodeRoutes.list)
  const status = option('status')
  const wanted = body.nodes.map((node) => status === undefined || node.status === status)
  const shown = body.nodes.filter((_, at) => wanted[at])
  if (print.format === 'text' && shown.length === 0)
    return print.remark(status === undefined ? 'no nodes yet; `muster join URL --token T` adds this machine' : `no node is ${status}`)
  print.result(status === undefined ? raw : keepMatching(raw, wanted), () => renderTable(nodeColumns(shell.clock), shown, print.width))
  const pending = shown.filter((node) => node.status === 'pending')
  if (pending.length > 0)
    print.remark(`waiting for approval: ${pending.map((node) => plainText(node.name)).join(', ')} (\`muster nodes approve NODE\`)`)
}

/** Filters the nodes of the raw answer, so that fields unknown to this version stay. */
function keepMatching(raw: unknown, wanted: readonly boolean[]): unknown {
  if (typeof raw !== 'object' || raw === null || !('nodes' in raw) || !Array.isArray(raw.nodes)) return raw
  return { ...raw, nodes: raw.nodes.filter((_, at) => wanted[at]) }
}

const nodesShow: ClientCommand = {
  name: 'show',
  summary: 'Show the details of a node, and its replicas',
  arguments: [nodeArgument],
  examples: ['muster nodes show gpu-1', 'muster nodes show gpu-1 -o json'],
  run: async ({ shell, api, print, words: [wanted] }) => {
    const node = await fetchNode(api, wanted)
    const params = { id: node.id }
    const { raw, body } = await api.call(nodeRoutes.get, { params })
    const replicas = await api.call(nodeRoutes.models, { params })
    print.result({ ...asObject(raw), ...asObject(replicas.raw) }, () => {
      const now = shell.clock.now()
      const fields = renderNode(body, now)
      const rows = replicas.body.replicas
      return rows.length === 0 ? fields : `${fields}\n\n${renderTable(replicasOfNodeColumns(now), rows, print.width)}`
    })
  },
}

function changeNodes(action: 'approve' | 'resume'): ClientCommand['run'] {
  return async (call) => {
    const { api, print, words } = call
    const single = singleNode(call, words)
    if (single === null) return actOnNodes(call, { action, words })
    const node = await fetchNode(api, single)
    const { raw, body } = await api.call(nodeRoutes[action], { params: { id: node.id } })
    print.result(raw, () => describeNode(body))
  }
}

const nodesApprove: ClientCommand = {
  name: 'approve',
  summary: 'Approve pending nodes, so that they get work',
  arguments: [nodesArgument],
  options: bulkOptions(),
  examples: ['muster nodes approve gpu-1', 'muster nodes approve gpu-1 gpu-2', 'muster nodes approve --selector rack=b2'],
  run: changeNodes('approve'),
}

const nodesDrain: ClientCommand = {
  name: 'drain',
  summary: 'Give nodes no new work, and move their replicas to other nodes',
  details:
    'Each replica keeps serving until another node has a replacement. With one node, follows until no replica is left, or until the remaining ones wait for a node with room (exit code 3).',
  arguments: [nodesArgument],
  options: [
    ...bulkOptions(),
    new Option(
      '--wait [duration]',
      'follow until no replica is left, also while replicas wait for a node with room; --wait=30m sets a limit',
    ),
    new Option('--no-wait', 'mark the node, and do not follow'),
  ],
  examples: ['muster nodes drain gpu-1', 'muster nodes drain gpu-1 --wait=30m', 'muster nodes drain --selector rack=b2 --yes'],
  run: async (call) => {
    const { api, print, words } = call
    const mode = followMode(call)
    const single = singleNode(call, words)
    if (single === null) {
      if (mode.follow === 'end') throw usageError('--wait follows the drain of one node; `muster nodes ls --watch` shows several')
      return actOnNodes(call, { action: 'drain', words })
    }
    const node = await fetchNode(api, single)
    const { raw, body } = await api.call(nodeRoutes.drain, { params: { id: node.id } })
    if (mode.follow === 'no') return print.result(raw, () => describeNode(body))
    if (print.format === 'text') print.line(undefined, () => describeNode(body))
    await followDrain(call, mode, body)
  },
}

const nodesResume: ClientCommand = {
  name: 'resume',
  summary: 'End drains: the nodes get work again',
  arguments: [nodesArgument],
  options: bulkOptions(),
  examples: ['muster nodes resume gpu-1', 'muster nodes resume --all'],
  run: changeNodes('resume'),
}

const nodesRm: ClientCommand = {
  name: 'rm',
  summary: 'Remove nodes and their keys',
  details:
    'Their open operations are cancelled. A removed worker stops its replicas and keeps its files; to return it needs a join token and a new approval.',
  arguments: [nodesArgument],
  options: bulkOptions(),
  examples: ['muster nodes rm gpu-1', 'muster nodes rm --selector rack=b2'],
  run: async (call) => {
    const { api, print, words } = call
    const single = singleNode(call, words)
    if (single === null) return actOnNodes(call, { action: 'remove', words })
    const node = await fetchNode(api, single)
    const { raw } = await api.call(nodeRoutes.remove, { params: { id: node.id } })
    print.result(raw, () => `${plainText(node.name)} (${node.id}) is removed`)
  },
}

const nodesLabel: ClientCommand = {
  name: 'label',
  summary: 'Show the labels of a node, or set and remove labels of nodes',
  arguments: [
    [
      '[words...]',
      'nodes, by id or unique name (or use --selector or --all), then labels: KEY=VALUE sets one, KEY- removes one; without labels, those of one node are shown',
    ],
  ],
  options: bulkOptions(),
  examples: [
    'muster nodes label gpu-1 rack=b2 tier=fast',
    'muster nodes label gpu-1 gpu-2 tier-',
    'muster nodes label --selector rack=b2 tier=fast',
  ],
  run: async (call) => {
    const { api, print, words, option, flag } = call
    const { nodes: named, labels } = splitLabelWords(words, option('selector') !== undefined || flag('all'))
    const patch = parseLabelArguments(labels)
    const single = singleNode(call, named)
    if (single === null) {
      if (labels.length === 0) throw usageError('name one node to show its labels, or give labels: KEY=VALUE sets one, KEY- removes one')
      return actOnNodes(call, { action: 'label', words: named, labels: patch })
    }
    const node = await fetchNode(api, single)
    const params = { id: node.id }
    const { raw, body } =
      labels.length === 0 ? await api.call(nodeRoutes.labels, { params }) : await api.call(nodeRoutes.patchLabels, { params, body: patch })
    print.result(raw, () => labelLines(body.labels).map(plainText).join('\n'))
  },
}

const nodesVramBudget: ClientCommand = {
  name: 'vram-budget',
  summary: 'Let Muster use only part of the GPU memory of a node',
  details: 'A budget above the memory of the node has no effect. `muster nodes show` shows it.',
  arguments: [nodeArgument, ['[budget]', 'a percentage (80%) or a size (12GB)']],
  options: [new Option('--clear', 'remove the budget')],
  examples: ['muster nodes vram-budget gpu-1 80%', 'muster nodes vram-budget gpu-1 12GB', 'muster nodes vram-budget gpu-1 --clear'],
  run: async ({ api, print, flag, words: [wanted, value] }) => {
    const budget = flag('clear') ? null : parseBudget(value)
    if (budget === null && value !== undefined) throw usageError('--clear takes no budget')
    const node = await fetchNode(api, wanted)
    const params = { id: node.id }
    const { raw, body } =
      budget === null
        ? await api.call(nodeRoutes.deleteVramBudget, { params })
        : await api.call(nodeRoutes.putVramBudget, { params, body: budget })
    print.result(raw, () => plainText(`${body.name} (${body.id}) may use ${body.vram_budget ?? 'all'} of its GPU memory`))
  },
}

const nodesMaxReplicasPerModel: ClientCommand = {
  name: 'max-replicas-per-model',
  summary: 'Limit the replicas of one model on a node',
  details: 'A lower limit that the worker was started with stays. `muster nodes show` shows the limit in effect. Running replicas stay.',
  arguments: [nodeArgument, ['[number]', 'the most replicas of one model']],
  options: [new Option('--clear', 'remove the limit')],
  examples: ['muster nodes max-replicas-per-model gpu-1 1', 'muster nodes max-replicas-per-model gpu-1 --clear'],
  run: async ({ api, print, flag, words: [wanted, value] }) => {
    const limit = flag('clear') ? null : parseLimit(value)
    if (limit === null && value !== undefined) throw usageError('--clear takes no number')
    const node = await fetchNode(api, wanted)
    const params = { id: node.id }
    const { raw, body } =
      limit === null
        ? await api.call(nodeRoutes.deleteMaxReplicasPerModel, { params })
        : await api.call(nodeRoutes.putMaxReplicasPerModel, { params, body: limit })
    const most = body.limits?.max_replicas_per_model?.value ?? body.max_replicas_per_model ?? null
    const runs = most === null ? 'any number of replicas' : most === 1 ? 'at most 1 replica' : `at most ${most} replicas`
    print.result(raw, () => plainText(`${body.name} (${body.id}) runs ${runs} of each model`))
  },
}

function parseLimit(value: string | undefined): { value: number } {
  if (value === undefined) throw usageError('give the most replicas of one model, or --clear')
  const parsed = nodeRoutes.putMaxReplicasPerModel.body?.safeParse({ value: /^\d{1,6}$/.test(value) ? Number(value) : null })
  if (parsed?.success === true) return parsed.data
  throw usageError(`${JSON.stringify(plainText(value))} is not a number of replicas: use 1 to 65536`)
}

function parseBudget(value: string | undefined): { value: string } {
  if (value === undefined) throw usageError('give a budget, a percentage (80%) or a size (12GB), or --clear')
  const parsed = nodeRoutes.putVramBudget.body?.safeParse({ value })
  if (parsed?.success === true) return parsed.data
  throw usageError(`${JSON.stringify(plainText(value))} is not a budget: ${parsed?.error.issues[0]?.message ?? 'not valid'}`)
}
