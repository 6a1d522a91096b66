// Words of the command line that name an object: nodes, models, backends, operations, labels.
import type { z } from 'zod'
import { BackendName, LabelPatch, ModelName, nodeRoutes, type NodeView, OperationId, parseSelector, type Selector } from '@muster/protocol'
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

interface NamedItem {
  readonly id: string
  readonly name: string
}

/** Finds by id or by unique name. An id wins, so that a machine cannot take another's id as its name. */
export function findByName<T extends NamedItem>(kind: string, items: readonly T[], wanted: string): T {
  const byId = items.find((item) => item.id === wanted)
  if (byId !== undefined) return byId
  const byName = items.filter((item) => item.name === wanted)
  const [only, ...others] = byName
  const shown = plainText(wanted)
  if (only === undefined)
    throw new CliError(`no ${kind} has the id or name ${JSON.stringify(shown)}`, { hint: `\`muster ${kind}s ls\` lists all` })
  if (others.length > 0)
    throw usageError(
      `${byName.length} ${kind}s have the name ${JSON.stringify(shown)}: use the ID`,
      byName.map((item) => item.id).join('\n'),
    )
  return only
}

/** `k=v` sets a label, `k-` removes one, as in kubectl. */
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
  throw usageError(`${JSON.stringify(word)} is not a label: write KEY=VALUE to set one, KEY- to remove one`)
}

/** A bad key is described one level below the issue. */
function reasonOf(issue: { message: string; issues?: unknown } | undefined): string {
  const inner: unknown = Array.isArray(issue?.issues) ? issue.issues[0] : undefined
  if (typeof inner === 'object' && inner !== null && 'message' in inner && typeof inner.message === 'string') return inner.message
  return issue?.message ?? 'not valid'
}

export const selectorHelp =
  'KEY=VALUE,…; a repeated key means one of the values, KEY=* any value, KEY=! no such label, KEY=!VALUE another value'

export function parseSelectorOption(text: string): Selector {
  const parsed = parseSelector(text.split(','))
  if ('selector' in parsed) return parsed.selector
  throw usageError(`--selector: ${parsed.problem}`)
}

export const modelArgument = ['<name>', 'the model, as `muster models ls` shows it'] as const

export const operationArgument = ['<operation>', 'its id, as `muster ops ls` shows it'] as const

export const parseModelName = (word: string | undefined): ModelName => parseWith(ModelName, 'the name of a model', word)
export const parseBackendName = (word: string | undefined): BackendName => parseWith(BackendName, 'the name of a backend', word)
export const parseOperationId = (word: string | undefined): OperationId => parseWith(OperationId, 'the id of an operation', word)

function parseWith<S extends z.ZodType>(schema: S, kind: string, word = ''): z.output<S> {
  const parsed = schema.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(word))} is not ${kind}: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
