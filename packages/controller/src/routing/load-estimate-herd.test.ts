// Simulates several controllers with the same replicas: reports about each other's load must not cause herding.
import { expect, it } from 'vitest'
import { chooseReplica } from './replica-choice.pure.ts'
import { createInFlight } from './in-flight.ts'
import { createLoadEstimate } from './load-estimate.ts'

interface Setup {
  readonly controllers: number
  /** The controller of each of 32 clients, which send one request after the other. */
  readonly homeOf: (client: number) => number
  /** From a controller to a worker and back. */
  readonly wireMs: number
  readonly hasReports: boolean
}
const replicas = ['a', 'b', 'c', 'd'].map((replicaId) => ({ replicaId }))

/** By how much the busiest and the idlest replica differ, on average over a minute, with answers of 20 to 320 ms. */
function unevenness({ controllers, homeOf, wireMs, hasReports }: Setup): number {
  let [now, turn, state] = [0, 0, 1]
  const random = (): number => (state = (state * 48_271) % 0x7f_ff_ff_ff) / 0x7f_ff_ff_ff
  const agenda: { at: number; act: () => void }[] = []
  const later = (ms: number, act: () => void): void => {
    const at = now + ms
    const index = agenda.findLastIndex((each) => each.at <= at)
    agenda.splice(index + 1, 0, { at, act })
  }
  const open = new Map(replicas.map(({ replicaId }) => [replicaId, 0]))
  const add = (id: string, change: number): number => {
    const count = (open.get(id) ?? 0) + change
    open.set(id, count)
    return count
  }
  const each = Array.from({ length: controllers }, () => {
    const inFlight = createInFlight()
    return { inFlight, load: createLoadEstimate({ inFlight, clock: { monotonic: () => now } }) }
  })
  const send = (home: number): void => {
    const controller = each[home]
    if (controller === undefined) return
    const { inFlight, load } = controller
    turn += 1
    const chosen = chooseReplica({
      ...{ candidates: replicas, inFlight: load.among(replicas), isExcluded: () => false, turn },
      ...{ key: null, markOf: () => 0 },
    })
    const id = chosen?.candidate.replicaId ?? ''
    const lease = inFlight.open(id)
    later(wireMs / 2, () => {
      const count = add(id, 1)
      if (hasReports) later(wireMs / 2, () => load.report(id, count))
      later(20 + random() * 300, () => {
        add(id, -1)
        later(wireMs / 2, () => (lease[Symbol.dispose](), send(home)))
      })
    })
  }
  let [sum, samples] = [0, 0]
  const sample = (): void => {
    sum += Math.max(...open.values()) - Math.min(...open.values())
    samples += 1
    later(20, sample)
  }
  for (let client = 0; client < 32; client += 1) later(random() * 50, () => send(homeOf(client)))
  later(2_000, sample)
  for (let next = agenda.shift(); next !== undefined && next.at < 60_000; next = agenda.shift()) {
    now = next.at
    next.act()
  }
  return sum / samples
}

const shared = (client: number): number => client % 2
const lopsided = (client: number): number => (client < 26 ? 0 : 1)

it.each<[string, Omit<Setup, 'hasReports'>, (withReports: number, without: number) => boolean]>([
  ['equal numbers of clients do not cause herding', { controllers: 2, homeOf: shared, wireMs: 2 }, (a, b) => a < b + 0.2],
  ['nor does a long delay', { controllers: 2, homeOf: shared, wireMs: 20 }, (a, b) => a < b + 0.4],
  ['nor do four controllers', { controllers: 4, homeOf: (client) => client % 4, wireMs: 20 }, (a, b) => a < b + 0.5],
  ['the controller with few clients fills the gaps of the other', { controllers: 2, homeOf: lopsided, wireMs: 2 }, (a, b) => a < b / 2],
])('reports of load: %s', (_, setup, isGood) => {
  const [withReports, without] = [unevenness({ ...setup, hasReports: true }), unevenness({ ...setup, hasReports: false })]
  expect(isGood(withReports, without), `with reports ${withReports.toFixed(2)}, without ${without.toFixed(2)}`).toBe(true)
})
