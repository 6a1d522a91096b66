// Whether commands and heartbeats can travel: as the controller sees it, else by looking at NATS.
import { systemRoutes } from '@muster/protocol'
import { askHttp, type HttpFinding } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'
import { examineNats } from './nats-server.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

/** Null: the controller told nothing of its bus. */
export function judgeBusOfController(finding: HttpFinding | null): Verdict | null {
  if (finding === null || !finding.answered) return null
  const status = systemRoutes.status.response?.safeParse(finding.json)
  if (status?.success !== true) return null
  const { kind, connected } = status.data.bus
  if (!connected)
    return fail('the controller has no connection to NATS', "check that nats-server runs, and the controller's --nats-url and credentials")
  return ok(
    kind === 'local' ? 'in-process, works (workers on other machines need NATS: --nats-url)' : 'the controller is connected to NATS',
  )
}

export const busCheck = ({ known, natsUrl }: { known: KnownTarget; natsUrl: string | undefined }): Check => ({
  name: 'bus',
  run: async (signal) => {
    const told = judgeBusOfController(known.target === null ? null : await askHttp(known.target, systemRoutes.status.path, signal))
    if (told !== null) return told
    if (natsUrl === undefined) return ok('no --nats-url: `muster up` uses its in-process bus')
    return examineNats(natsUrl, signal)
  },
})
