// One action on several nodes: named ones, those of --selector, or all. The controller lists the effects first; on a terminal they
// are confirmed. The action then concerns exactly the listed nodes, also if others match by then.
import { Option } from 'commander'
import { newId } from '@muster/host'
import {
  type LabelPatch,
  type NodeAction,
  type NodeActionRequest,
  type NodeActionResult,
  nodeActionRoutes,
  nodeRoutes,
} from '@muster/protocol'
import { fetchNodes, parseSelectorOption, selectorHelp } from '../arguments.ts'
import { CliError, usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { type Column, renderTable } from '../output/table.ts'
import { plainText } from '../output/text.ts'

export const nodesArgument = ['[node...]', 'ids, or names that only one node has; or use --selector or --all'] as const

export const bulkOptions = (): Option[] => [
  new Option('--selector <labels>', `nodes with these labels: ${selectorHelp}`),
  new Option('--all', 'all nodes'),
  new Option('--yes', 'do not ask for confirmation'),
]

/** The only named node of a command; null: the command concerns several, or a selection. */
export function singleNode({ option, flag }: ClientCall, words: readonly string[]): string | null {
  const isSelection = option('selector') !== undefined || flag('all')
  return words.length === 1 && !isSelection ? (words[0] ?? null) : null
}

export interface ActionOnNodes {
  readonly action: NodeAction
  /** The named nodes. */
  readonly words: readonly string[]
  readonly labels?: LabelPatch
}

export async function actOnNodes(call: ClientCall, { action, words, labels }: ActionOnNodes): Promise<void> {
  const { api, print, shell } = call
  const targets = await targetsOf(call, words)
  const change = { action, ...(labels === undefined ? {} : { labels }) }
  const { body: preview } = await api.call(nodeActionRoutes.run, { body: { ...change, ...targets, dry_run: true } })
  if (!(await isConfirmed(call, { action, isNamed: words.length > 0, results: preview.results }))) {
    print.remark('nothing was changed')
    return shell.fail(1)
  }
  const nodes = preview.results.map(({ node_id }) => node_id)
  const { raw, body } = await api.call(nodeActionRoutes.run, { body: { ...change, nodes }, idempotencyKey: newId() })
  print.result(raw, () => renderTable(resultColumns, body.results, print.width))
  print.remark(countOutcomes(body.results))
  if (body.results.some(({ outcome }) => outcome === 'failed')) shell.fail(1)
}

async function targetsOf(
  { api, option, flag }: ClientCall,
  words: readonly string[],
): Promise<Pick<NodeActionRequest, 'nodes' | 'selector'>> {
  const selector = option('selector')
  const given = [words.length > 0, selector !== undefined, flag('all')].filter(Boolean).length
  if (given === 0) throw usageError('name a node, or give --selector or --all')
  if (given > 1) throw usageError('name nodes, or give --selector or --all: one of the three')
  if (selector !== undefined) return { selector: parseSelectorOption(selector) }
  const nodes = flag('all') ? (await api.call(nodeRoutes.list)).body.nodes : await fetchNodes(api, words)
  if (nodes.length === 0) throw new CliError('there are no nodes', { hint: '`muster join URL --token T` adds this machine' })
  return { nodes: [...new Set(nodes.map(({ id }) => id))] }
}

const verbs: Readonly<Record<NodeAction, string>> = {
  ...{ approve: 'Approve', drain: 'Drain', resume: 'Resume', label: 'Label', remove: 'Remove' },
}

type Preview = Readonly<{ action: NodeAction; isNamed: boolean; results: readonly NodeActionResult[] }>

async function isConfirmed({ shell, print, flag }: ClientCall, { action, isNamed, results }: Preview): Promise<boolean> {
  if (flag('yes')) return true
  if (!shell.input.isTerminal) {
    if (action !== 'remove' || isNamed) return true
    throw usageError(`${results.length} nodes would be removed; without a terminal, --selector and --all need --yes to remove nodes`)
  }
  const changed = results.filter(({ outcome }) => outcome === 'done').length
  // Nothing changes, so there is nothing to confirm: the results say why.
  if (changed === 0) return true
  shell.terminal.err(renderTable(resultColumns, results, print.width))
  const answer = await shell.input.createPrompt()(`${verbs[action]} ${changed} ${changed === 1 ? 'node' : 'nodes'}? [y/N] `)
  return answer.kind === 'line' && /^y(?:es)?$/i.test(answer.text.trim())
}

const resultColumns: readonly Column<NodeActionResult>[] = [
  { heading: 'NAME', cell: (result) => result.node_name, shrinks: true },
  { heading: 'ID', cell: (result) => result.node_id },
  { heading: 'RESULT', cell: (result) => result.outcome },
  { heading: 'MESSAGE', cell: (result) => result.message },
]

export function countOutcomes(results: readonly NodeActionResult[]): string {
  const count = (wanted: NodeActionResult['outcome']): number => results.filter(({ outcome }) => outcome === wanted).length
  return plainText(
    (['done', 'unchanged', 'failed'] as const)
      .filter((outcome) => outcome === 'done' || count(outcome) > 0)
      .map((outcome) => `${count(outcome)} ${outcome}`)
      .join(', '),
  )
}

/** `NODE… KEY=VALUE…`: the words from the first label on are labels. With a selection, all words are. */
export function splitLabelWords(words: readonly string[], isSelection: boolean): { nodes: readonly string[]; labels: readonly string[] } {
  if (isSelection) return { nodes: [], labels: words }
  const first = words.findIndex((word, at) => at > 0 && (word.includes('=') || word.endsWith('-')))
  return first < 0 ? { nodes: words, labels: [] } : { nodes: words.slice(0, first), labels: words.slice(first) }
}
