// `nodes ls --watch`: the table, then a line for each change that would be seen in it. Whenever the
// stream begins anew the whole list is read again, so nothing that happened meanwhile is missed.
import { nodeRoutes, NodeView } from '@muster/protocol'
import { parseJson } from '../client/explain-failure.ts'
import { followEvents } from '../client/events.ts'
import type { ServerEvent } from '../client/sse-parser.ts'
import type { ClientCall } from '../commands/client-command.ts'
import { plainText } from '../output/plain-text.ts'
import { layOutTable, type TableLayout } from '../output/table.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { nodeColumns } from './node-table.ts'

export async function watchNodes(call: ClientCall): Promise<void> {
  const { api, shell, print } = call
  using interrupted = untilInterrupted()
  const { signal } = interrupted
  const view = createView(call)
  for await (const item of followEvents({ api, clock: shell.clock, signal })) {
    if (item.kind === 'lost') print.remark(`connection lost (${plainText(item.reason)}); trying again`)
    else if (item.kind === 'connected' || item.event.type === 'reset') await view.reload(signal)
    else if (item.event.type === 'node') view.apply(item.event)
  }
}

interface View {
  reload(signal: AbortSignal): Promise<void>
  apply(event: ServerEvent): void
}

function createView({ api, shell, print, option }: ClientCall): View {
  const status = option('status')
  const shown = new Map<string, { name: string; line: string }>()
  let layout: TableLayout<NodeView> | null = null

  // The age of a node changes all the time; only the other columns count as a change.
  const fingerprint = (node: NodeView): string =>
    nodeColumns(0)
      .filter((column) => column.heading !== 'SEEN')
      .map((column) => column.cell(node))
      .join('\0')
  const lineOf = (node: NodeView): string => layOutLike(node).line(node)
  const layOutLike = (node: NodeView): TableLayout<NodeView> =>
    (layout ??= layOutTable(nodeColumns(shell.clock.now()), [node], print.width))

  function show(node: NodeView, raw: unknown): void {
    if (status !== undefined && node.status !== status) return hide(node.id, raw)
    const line = print.format === 'json' ? JSON.stringify(raw) : fingerprint(node)
    if (shown.get(node.id)?.line === line) return
    shown.set(node.id, { name: node.name, line })
    print.line(raw, () => lineOf(node))
  }

  function hide(id: string, raw: unknown): void {
    const last = shown.get(id)
    if (!shown.delete(id)) return
    print.line(raw, () => `${plainText(last?.name ?? '')} (${id}) is ${status === undefined ? 'removed' : `not ${status} any more`}`)
  }

  async function reload(signal: AbortSignal): Promise<void> {
    const { raw, body } = await api.call(nodeRoutes.list)
    if (signal.aborted) return
    const rows = body.nodes.filter((node) => status === undefined || node.status === status)
    if (layout === null && print.format === 'text') {
      layout = layOutTable(nodeColumns(shell.clock.now()), rows, print.width)
      print.line(undefined, layout.heading)
    }
    const raws = rawNodes(raw)
    body.nodes.forEach((node, at) => show(node, raws[at]))
    const present = new Set(body.nodes.map((node): string => node.id))
    for (const id of [...shown.keys()]) if (!present.has(id)) hide(id, { id, deleted: true })
  }

  function apply(event: ServerEvent): void {
    const raw = parseJson(event.data)
    const node = NodeView.safeParse(raw)
    if (node.success) return show(node.data, raw)
    if (typeof raw === 'object' && raw !== null && 'deleted' in raw && raw.deleted === true && 'id' in raw && typeof raw.id === 'string')
      hide(raw.id, raw)
  }

  return { reload, apply }
}

function rawNodes(raw: unknown): readonly unknown[] {
  return typeof raw === 'object' && raw !== null && 'nodes' in raw && Array.isArray(raw.nodes) ? raw.nodes : []
}
