// Which nodes a wish is about: `--node`, which may be repeated, or `--selector`; neither means all that can be meant.
import { Option } from 'commander'
import { type NodeId, Selector } from '@muster/protocol'
import type { ApiClient } from '../client/api-client.ts'
import { usageError } from '../cli-error.ts'
import { collect } from '../commands/define-command.ts'
import { fetchNodes } from '../nodes/fetch-node.ts'

export const nodeOption = (): Option =>
  new Option('--node <node>', 'only on this node, by id or by a name that only one has; may be repeated').argParser(collect)

export const selectorOption = (): Option =>
  new Option(
    '--selector <labels>',
    'only on nodes with these labels: KEY=VALUE,…; the same key again means one of the values, KEY=* any, KEY=! none, KEY=!VALUE another one',
  )

export const dryRunOption = (): Option => new Option('--dry-run', 'show what would be done on which node, and do nothing')

export async function namedNodes(api: ApiClient, names: readonly string[]): Promise<{ nodes?: NodeId[] }> {
  if (names.length === 0) return {}
  const nodes = await fetchNodes(api, names)
  return { nodes: [...new Set(nodes.map((node) => node.id))] }
}

export function parseSelector(text: string): Selector {
  const wanted = new Map<string, string[]>()
  for (const word of text.split(',')) {
    const equals = word.indexOf('=')
    if (equals <= 0) throw usageError(`--selector: ${JSON.stringify(word)} is not KEY=VALUE`)
    const key = word.slice(0, equals).trim()
    wanted.set(key, [...(wanted.get(key) ?? []), word.slice(equals + 1).trim()])
  }
  const parsed = Selector.safeParse(Object.fromEntries([...wanted].map(([key, values]) => [key, values.length === 1 ? values[0] : values])))
  if (parsed.success) return parsed.data
  throw usageError(`--selector: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
