// The fleet as lines: the table once, then a line for each change that would be seen in it. For readers that can't
// go back to a line: files, pipes, and programs that read JSON.
import type { Clock } from '@muster/host'
import type { NodeView } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import type { Printer } from '../output/printer.ts'
import { layOutTable, type TableLayout } from '../output/table.ts'
import type { FleetView, ReceivedNode } from './fleet-view.ts'
import { nodeColumns } from './node-table.ts'

export interface NodeLinesDeps {
  readonly print: Printer
  readonly clock: Pick<Clock, 'now'>
  /** Only nodes of this one. */
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
    print.line(raw, () => `${plainText(last?.name ?? '')} (${id}) is ${status === undefined ? 'removed' : `not ${status} any more`}`)
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
    connectionLost: (reason) => print.remark(`connection lost (${plainText(reason)}); trying again`),
    tick: () => undefined,
  }
}

/** The age of a node changes all the time; only the other columns count as a change. */
const fingerprint = (node: NodeView): string =>
  nodeColumns({ now: () => 0 })
    .filter((column) => column.heading !== 'SEEN')
    .map((column) => column.cell(node))
    .join('\0')
