// `muster status`: the cluster at a glance.
import type { Command } from 'commander'
import { type ResponseOf, systemRoutes } from '@muster/protocol'
import { formatAge } from '../output/amounts.ts'
import { plainText } from '../output/plain-text.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

type Status = ResponseOf<typeof systemRoutes.status>

export const status = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'status',
    summary: 'Show the cluster at a glance',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(systemRoutes.status)
      print.result(raw, () => renderStatus(body, { url: api.target.url.origin, now: shell.clock.now(), width: print.width }))
    },
  })

function renderStatus(body: Status, at: { url: string; now: number; width: number | null }): string {
  const columns: Column<Status['controllers'][number]>[] = [
    { heading: 'CONTROLLER', cell: (controller) => controller.id, shrinks: true },
    { heading: 'URL', cell: (controller) => controller.url },
    { heading: 'VERSION', cell: (controller) => controller.version },
    { heading: 'UP', cell: (controller) => formatAge(controller.started_at, at.now), align: 'right' },
    { heading: 'SEEN', cell: (controller) => formatAge(controller.last_seen_at, at.now), align: 'right' },
  ]
  return [
    nodesSentence(body.nodes),
    '',
    renderFields([
      ['Muster', `${body.version} at ${at.url}`],
      ['Database', `PostgreSQL ${body.database.version}`],
      ['Bus', `${body.bus.kind === 'local' ? 'in-process' : 'NATS'}, ${body.bus.connected ? 'connected' : 'not connected'}`],
    ]),
    '',
    renderTable(columns, body.controllers, at.width),
  ].join('\n')
}

/** `5 nodes: 4 healthy, 1 unhealthy`. */
function nodesSentence(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0)
  const total = some.reduce((sum, [, count]) => sum + count, 0)
  if (total === 0) return 'No nodes yet.'
  const parts = some.toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${count} ${plainText(name)}`)
  return `${total} ${total === 1 ? 'node' : 'nodes'}: ${parts.join(', ')}.`
}
