// Whether commands and heartbeats can travel: as the controller sees it, else by looking at NATS.
import { askController, type ControllerWord } from './ask-controller.ts'
import type { KnownTarget } from './known-target.ts'
import { examineNats } from './nats-server.ts'
import { judgeUntold } from './untold.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

/** Null: the controller told nothing of its bus. */
export function judgeBusOfController(word: ControllerWord): Verdict | null {
  if (word.kind === 'ready') return ok('works: the controller is ready')
  if (word.kind !== 'status') return null
  const { kind, connected } = word.status.bus
  if (!connected)
    return fail('the controller has no connection to NATS', "check that nats-server runs, and the controller's --nats-url and credentials")
  return ok(
    kind === 'local' ? 'in-process, works (workers on other machines need NATS: --nats-url)' : 'the controller is connected to NATS',
  )
}

export const busCheck = ({ known, natsUrl }: { known: KnownTarget; natsUrl: string | undefined }): Check => ({
  name: 'bus',
  run: async (signal) => {
    const word = await askController(known, signal)
    const told = judgeBusOfController(word)
    if (told !== null) return told
    const local = natsUrl === undefined ? ok('no --nats-url: `muster up` uses its in-process bus') : await examineNats(natsUrl, signal)
    return judgeUntold(word, local, '--nats-url') ?? local
  },
})
