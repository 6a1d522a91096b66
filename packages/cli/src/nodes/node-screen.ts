// The fleet as a table that is kept up to date on a terminal: what changes is seen in its place, and ages grow.
import type { Clock } from '@muster/host'
import type { NodeView } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import type { Screen } from '../output/screen.ts'
import { renderTable } from '../output/table.ts'
import type { FleetView } from './fleet-view.ts'
import { nodeColumns } from './node-table.ts'

export interface NodeScreenDeps {
  readonly screen: Screen
  readonly clock: Pick<Clock, 'now'>
  /** Only nodes of this one. */
  readonly status: string | undefined
}

export function createNodeScreen({ screen, clock, status }: NodeScreenDeps): FleetView {
  const nodes = new Map<string, NodeView>()
  /** Before that, an empty table would be a claim. */
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
      notice = `connection lost (${plainText(reason)}); trying again`
      draw()
    },
    tick: draw,
  }
}

/** As the API lists them. */
const byName = (a: NodeView, b: NodeView): number => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1)
