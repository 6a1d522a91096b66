// How many requests are with each replica, as far as this controller can know: its own exactly, and what others have there
// as the replica's worker told it last, with an answer or a heartbeat. The requests of others end without a word to this
// controller, so what was told fades, and nothing of it can leak. It never says less than the own ones.
//
// Old news makes controllers chase each other from replica to replica: whoever hears of a busy one sends nothing there, and
// so hears nothing more from it. Therefore what was told fades to what others have at the replicas of that model on average,
// not to nothing, and each number moves what is known only a part of the way. known-load-herd.test.ts simulates it: with
// neither, the load of replicas differs three times as much as when controllers know nothing of each other.
import type { Clock } from '@muster/host'
import type { InFlight } from './in-flight.ts'

/** A little more than the pause between two heartbeats. */
const fadesInMs = 6_000
/** How far one number moves what is known: each is off by what is on the wire just then. */
const weight = 0.2

interface Told {
  readonly others: number
  readonly at: number
}
interface Placed {
  readonly replicaId: string
}
export interface KnownLoad {
  /** Its worker says that so many are there now, those of this controller among them. */
  told(replicaId: string, count: number): void
  /** The replicas of one model: how many each of them has. For now; what is told later is not in it. */
  among(replicas: readonly Placed[]): (replica: Placed) => number
}

export function createKnownLoad({ inFlight, clock }: { inFlight: Pick<InFlight, 'of'>; clock: Pick<Clock, 'monotonic'> }): KnownLoad {
  /** The oldest first. */
  const heard = new Map<string, Told>()
  /** Of those at which others have something: most clusters have one controller, and then there is nothing to reckon. */
  let busy = 0
  const own = ({ replicaId }: Placed): number => inFlight.of(replicaId)
  const forget = (id: string): void => {
    const before = heard.get(id)
    if (before === undefined) return
    heard.delete(id)
    if (before.others > 0) busy -= 1
  }
  return {
    told(replicaId, count) {
      const [at, seen] = [clock.monotonic(), Math.max(0, count - inFlight.of(replicaId))]
      const before = heard.get(replicaId)
      const isFirst = before === undefined || at - before.at >= fadesInMs
      const others = isFirst ? seen : blend(before.others, seen)
      forget(replicaId)
      heard.set(replicaId, { others, at })
      if (others > 0) busy += 1
      for (const [id, told] of heard) {
        if (at - told.at < fadesInMs) break
        forget(id)
      }
    },
    among(replicas) {
      if (busy === 0) return own
      const now = clock.monotonic()
      const usual = usualOf(replicas, { heard, now })
      return (replica) => {
        const told = heard.get(replica.replicaId)
        const left = told === undefined ? 0 : 1 - (now - told.at) / fadesInMs
        return own(replica) + (told === undefined || left <= 0 ? usual : usual + (told.others - usual) * left)
      }
    },
  }
}

/** To nothing at last, so that a lone controller has nothing to reckon. */
function blend(before: number, seen: number): number {
  const after = before + (seen - before) * weight
  return after < 0.1 && seen === 0 ? 0 : after
}

/** What others have at a replica of these, on average over those that were heard of lately. */
function usualOf(replicas: readonly Placed[], { heard, now }: { heard: ReadonlyMap<string, Told>; now: number }): number {
  let [sum, count] = [0, 0]
  for (const { replicaId } of replicas) {
    const told = heard.get(replicaId)
    if (told === undefined || now - told.at >= fadesInMs) continue
    sum += told.others
    count += 1
  }
  return count === 0 ? 0 : sum / count
}
