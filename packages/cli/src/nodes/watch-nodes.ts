// `nodes ls --watch`: follows the events and shows the nodes, on a terminal as a table that is redrawn, otherwise as lines.
// The whole list is read again whenever the stream reconnects, so that no change is missed.
import { type Clock, parseJson } from '@muster/host'
import { nodeRoutes, NodeView, type ServerEvent } from '@muster/protocol'
import { followEvents } from '../client/events.ts'
import type { ClientCall } from '../commands/command.ts'
import { layOutTable, renderTable, type TableLayout } from '../output/table.ts'
import type { Printer, Screen } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt } from '../shell.ts'
import { nodeColumns } from './describe-node.ts'

const tickMs = 1000

export async function watchNodes({ api, shell: { clock, terminal }, print, option }: ClientCall): Promise<void> {
  using interrupted = listenForInterrupt()
  const { signal } = interrupted
  const status = option('status')
  const view =
    print.format === 'text' && terminal.screen !== null
      ? createNodeScreen({ screen: terminal.screen, clock, status })
      : createNodeLines({ print, clock, status })
  const over = new AbortController()
  const ticking = (async (): Promise<void> => {
    const until = AbortSignal.any([signal, over.signal])
    for (; !until.aborted; view.tick()) await clock.sleep(tickMs, until).catch(() => undefined)
  })()
  try {
    for await (const item of followEvents({ api, clock, signal })) {
      if (item.kind === 'lost') view.connectionLost(item.reason)
      else if (item.kind === 'event' && item.event.type === 'node') apply(view, item.event)
      else if (item.kind === 'connected' || item.event.type === 'reset') {
        const { raw, body } = await api.call(nodeRoutes.list)
        const raws = rawNodes(raw)
        if (!signal.aborted) view.replace(body.nodes.map((node, at) => ({ node, raw: raws[at] })))
      }
    }
  } finally {
    over.abort()
    await ticking
  }
}

function apply(view: FleetView, event: ServerEvent): void {
  const raw = parseJson(event.data)
  const node = NodeView.safeParse(raw)
  if (node.success) view.put({ node: node.data, raw })
  else if (typeof raw === 'object' && raw !== null && 'deleted' in raw && raw.deleted === true && 'id' in raw && typeof raw.id === 'string')
    view.remove(raw.id, raw)
}

function rawNodes(raw: unknown): readonly unknown[] {
  return typeof raw === 'object' && raw !== null && 'nodes' in raw && Array.isArray(raw.nodes) ? raw.nodes : []
}

/** A parsed node, and the raw object with fields unknown to this version. */
export interface ReceivedNode {
  readonly node: NodeView
  readonly raw: unknown
}

export interface FleetView {
  /** The whole list. */
  replace(nodes: readonly ReceivedNode[]): void
  put(node: ReceivedNode): void
  remove(id: string, raw: unknown): void
  connectionLost(reason: string): void
  /** Called every second. */
  tick(): void
}

// For files, pipes and programs that read JSON: the table once, then a line per change.

export interface NodeLinesDeps {
  readonly print: Printer
  readonly clock: Pick<Clock, 'now'>
  /** Only nodes with this status. */
  readonly status: string | undefined
}

export function createNodeLines({ print, clock, status }: NodeLinesDeps): FleetView {
  const shown = new Map<string, { name: string; line: string }>()
  let layout: TableLayout<NodeView> | null = null

  function put({ node, raw }: ReceivedNode): void {
    if (status !== undefined && node.status !== status) return remove(node.id, raw)
    const line = print.format === 'json' ? JSON.stringify(raw) : fingerprint(node)
    if (shown.get(node.id)?.line === line) return
    shown.set(node.id, { name: node.name, line })
    print.line(raw, () => (layout ??= layOutTable(nodeColumns(clock), [node], print.width)).line(node))
  }

  function remove(id: string, raw: unknown): void {
    const last = shown.get(id)
    if (!shown.delete(id)) return
    print.line(raw, () => `${plainText(last?.name ?? '')} (${id}) is ${status === undefined ? 'removed' : `no longer ${status}`}`)
  }

  return {
    put,
    remove,
    replace: (nodes) => {
      if (layout === null && print.format === 'text') {
        const rows = nodes.map(({ node }) => node).filter((node) => status === undefined || node.status === status)
        layout = layOutTable(nodeColumns(clock), rows, print.width)
        print.line(undefined, layout.heading)
      }
      nodes.forEach(put)
      const present = new Set(nodes.map(({ node }): string => node.id))
      for (const id of [...shown.keys()]) if (!present.has(id)) remove(id, { id, deleted: true })
    },
    connectionLost: (reason) => print.remark(`connection lost (${plainText(reason)}); retrying`),
    tick: () => undefined,
  }
}

/** All columns but the age, which changes all the time. */
const fingerprint = (node: NodeView): string =>
  nodeColumns({ now: () => 0 })
    .filter((column) => column.heading !== 'SEEN')
    .map((column) => column.cell(node))
    .join('\0')

// For terminals: a table that is redrawn in place.

export interface NodeScreenDeps {
  readonly screen: Screen
  readonly clock: Pick<Clock, 'now'>
  /** Only nodes with this status. */
  readonly status: string | undefined
}

export function createNodeScreen({ screen, clock, status }: NodeScreenDeps): FleetView {
  const nodes = new Map<string, NodeView>()
  /** False before the first list: an empty table would be wrong. */
  let isRead = false
  let notice: string | null = null

  function draw(): void {
    if (!isRead) return
    const rows = [...nodes.values()].filter((node) => status === undefined || node.status === status).toSorted(byName)
    screen.draw([...renderTable(nodeColumns(clock), rows, screen.width()).split('\n'), ...(notice === null ? [] : [notice])])
  }

  return {
    replace: (all) => {
      nodes.clear()
      for (const { node } of all) nodes.set(node.id, node)
      isRead = true
      notice = null
      draw()
    },
    put: ({ node }) => {
      nodes.set(node.id, node)
      draw()
    },
    remove: (id) => {
      nodes.delete(id)
      draw()
    },
    connectionLost: (reason) => {
      notice = `connection lost (${plainText(reason)}); retrying`
      draw()
    },
    tick: draw,
  }
}

/** The order of the API. */
const byName = (a: NodeView, b: NodeView): number => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1)
