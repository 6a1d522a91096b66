// `nodes ls --watch`: follows the events and shows the fleet as it is: on a terminal as a table that is kept up to
// date, elsewhere as lines. Whenever the stream begins anew the whole list is read again, so nothing that happened
// meanwhile is missed.
import { nodeRoutes, NodeView, type ServerEvent } from '@muster/protocol'
import { followEvents } from '../client/events.ts'
import { parseJson } from '../client/explain-failure.ts'
import type { ClientCall } from '../commands/client-command.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import type { FleetView } from './fleet-view.ts'
import { createNodeLines } from './node-lines.ts'
import { createNodeScreen } from './node-screen.ts'

const tickMs = 1000

export async function watchNodes({ api, shell: { clock, terminal }, print, option }: ClientCall): Promise<void> {
  using interrupted = untilInterrupted()
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
