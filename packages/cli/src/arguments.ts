// The node that an argument names, asked from the server.
import { BackendName, LabelPatch, ModelName, nodeRoutes, type NodeView } from '@muster/protocol'
import { CliError, usageError } from './cli-error.ts'
import type { ApiClient } from './client/api-client.ts'
import { plainText } from './output/text.ts'

export const nodeArgument = ['<node>', 'its id, or its name if only one node has it'] as const

export async function fetchNodes(api: ApiClient, wanted: readonly string[]): Promise<NodeView[]> {
  const { body } = await api.call(nodeRoutes.list)
  return wanted.map((name) => findByName('node', body.nodes, name))
}

export async function fetchNode(api: ApiClient, wanted: string | undefined): Promise<NodeView> {
  const { body } = await api.call(nodeRoutes.list)
  return findByName('node', body.nodes, wanted ?? '')
}

// Which one of the fleet's objects is meant: by id, or by a name that only one of them has.
// An id always wins: a machine that takes another one's id as its name gets nothing by it.

interface Named {
  readonly id: string
  readonly name: string
}

export function findByName<T extends Named>(kind: string, items: readonly T[], wanted: string): T {
  const byId = items.find((item) => item.id === wanted)
  if (byId !== undefined) return byId
  const byName = items.filter((item) => item.name === wanted)
  const [only, ...others] = byName
  const shown = plainText(wanted)
  if (only === undefined)
    throw new CliError(`no ${kind} has the id or name ${JSON.stringify(shown)}`, { hint: `\`muster ${kind}s ls\` lists all` })
  if (others.length > 0)
    throw usageError(
      `${byName.length} ${kind}s are called ${JSON.stringify(shown)}: name one by its id`,
      byName.map((item) => item.id).join('\n'),
    )
  return only
}

// Pure: `k=v` sets a label, `k-` takes one away (as kubectl has it).

export function parseLabelArguments(words: readonly string[]): LabelPatch {
  const changes = new Map<string, string | null>()
  for (const word of words) {
    const change = parseWord(word)
    if (changes.has(change.key)) throw usageError(`the label ${change.key} is given twice`)
    changes.set(change.key, change.value)
  }
  const parsed = LabelPatch.safeParse(Object.fromEntries(changes))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`bad label ${issue?.path.join('.') ?? ''}: ${reasonOf(issue)}`)
}

function parseWord(word: string): { key: string; value: string | null } {
  const equals = word.indexOf('=')
  if (equals > 0) return { key: word.slice(0, equals), value: word.slice(equals + 1) }
  if (equals < 0 && word.length > 1 && word.endsWith('-')) return { key: word.slice(0, -1), value: null }
  throw usageError(`${JSON.stringify(word)} is no label: write KEY=VALUE to set one, KEY- to take one away`)
}

/** What is wrong with a key is told one level below the issue. */
function reasonOf(issue: { message: string; issues?: unknown } | undefined): string {
  const inner: unknown = Array.isArray(issue?.issues) ? issue.issues[0] : undefined
  if (typeof inner === 'object' && inner !== null && 'message' in inner && typeof inner.message === 'string') return inner.message
  return issue?.message ?? 'not valid'
}

// A word of the command line that has to name a model.

export const modelArgument = ['<name>', 'of the model, as `muster models ls` shows it'] as const

export function parseModelName(word: string | undefined): ModelName {
  const parsed = ModelName.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(word ?? ''))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}

// A word of the command line that has to name a backend.

export function parseBackendName(word: string | undefined): BackendName {
  const parsed = BackendName.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(word ?? ''))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
