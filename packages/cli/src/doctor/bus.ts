// Whether commands and heartbeats can travel: as the controller sees it, else by looking at NATS.
import { queryController, type ControllerReport } from './ask-controller.ts'
import type { KnownTarget } from './known-target.ts'
import { examineNats } from './nats-server.ts'
import { judgeUnreported } from './untold.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

/** Null: the controller told nothing of its bus. */
export function judgeBusOfController(word: ControllerReport): Verdict | null {
  if (word.kind === 'ready') return ok('works: the controller is ready')
  if (word.kind !== 'status') return null
  const { kind, connected, open } = word.status.bus
  if (!connected)
    return fail('the controller has no connection to NATS', "check that nats-server runs, and the controller's --nats-url and credentials")
  if (open === true) return openBus('the controller is connected to NATS')
  return ok(
    kind === 'local' ? 'in-process, works (workers on other machines need NATS: --nats-url)' : 'the controller is connected to NATS',
  )
}

const openBus = (found: string): Verdict =>
  warn(
    `${found}, on which nodes have no credentials of their own: whoever can reach it can speak for every node`,
    'make a configuration for it with `muster nats-config`, and give controllers the account seed (MUSTER_NATS_ACCOUNT_SEED_FILE)',
  )

type BusFacts = Readonly<{ known: KnownTarget; natsUrl: string | undefined; isOpen: boolean }>

export const busCheck = ({ known, natsUrl, isOpen }: BusFacts): Check => ({
  name: 'bus',
  run: async (signal) => {
    const word = await queryController(known, signal)
    const told = judgeBusOfController(word)
    if (told !== null) return told
    const seen = natsUrl === undefined ? ok('no --nats-url: `muster up` uses its in-process bus') : await examineNats(natsUrl, signal)
    const local = seen.level === 'ok' && isOpen ? openBus(seen.found) : seen
    return judgeUnreported(word, local, '--nats-url') ?? local
  },
})
