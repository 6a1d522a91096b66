// One run: a cluster, clients that submit operations, a nemesis that kills processes, then quiet, and the check.
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '@muster/testkit'
import { check } from './check.ts'
import { conclude, isQuiet, type Concluded } from './conclude.ts'
import { rage } from './nemesis.ts'
import type { Observation, Violation } from './observation.ts'
import { createRandom } from './random.ts'
import { watchControllers } from './watch-controllers.ts'
import { watchDisks } from './watch-disks.ts'
import { keepSubmitting, oneOfEach, type Ledger } from './clients.ts'
import { startChaosWorld, type ChaosSize, type ChaosWorld } from './world.ts'

export interface ChaosOptions {
  readonly seed: number
  readonly durationMs: number
  readonly kills: number
  readonly size: ChaosSize
  readonly clients: number
  /** Between two submissions of one client, on average. */
  readonly submitEveryMs: number
  readonly say: (line: string) => void
}

export interface ChaosReport {
  readonly violations: readonly Violation[]
  readonly kills: Readonly<Record<string, number>>
  readonly accepted: number
  readonly refused: Readonly<Record<string, number>>
  readonly settledAfterMs: number | null
  readonly observed: Observation
  readonly history: Concluded['history']
  /** The output of each process. */
  readonly outputs: Readonly<Record<string, string>>
}

const quietMs = 60_000

export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const { seed, size, durationMs, kills, clients, submitEveryMs } = options
  const began = performance.now()
  const now = (): number => performance.now() - began
  const say = (line: string): void => options.say(`${(now() / 1000).toFixed(3).padStart(8)} ${line}`)
  say(`seed ${seed}: ${kills} kills in ${durationMs / 1000} s`)
  await using world = await startChaosWorld(size)
  say('the cluster is there')
  const random = createRandom(seed)
  world.offer(oneOfEach(world.images, random))
  const over = new AbortController()
  const ledger: Ledger = { accepted: [], refused: new Map() }
  const disks = watchDisks({ workers: world.workers, backends: size.backends, now }, over.signal)
  const known = (): string[] => ledger.accepted.map(({ operation }) => operation)
  const controllers = watchControllers({ world, disks, random: random.fork(), now, known }, over.signal)
  const enough = new AbortController()
  const nemesis = rage({ members: world.members, random: random.fork(), kills, durationMs, say, now })
  const submitting = Array.from({ length: clients }, () =>
    keepSubmitting({ world, random: random.fork(), everyMs: submitEveryMs, say, now }, ledger, enough.signal),
  )
  try {
    const killed = await Promise.race([nemesis, Promise.all(submitting).then(() => nemesis)])
    enough.abort()
    await Promise.all(submitting)
    const settledAfterMs = await untilQuiet(world, { say, now })
    await disks.lookOnce()
    const { history, ...concluded } = await conclude(world, { asked: known(), now })
    const observed: Observation = {
      ...{ controllers: size.controllers, accepted: ledger.accepted, downs: killed.downs, ...concluded },
      ...{ shown: controllers.shown(), clear: controllers.clear(), commands: disks.commands(), disk: disks.disk() },
    }
    const outputs = Object.fromEntries(world.members.map((member) => [member.name, member.output()]))
    return {
      ...{ kills: killed.kills, accepted: ledger.accepted.length, refused: Object.fromEntries(ledger.refused), settledAfterMs },
      ...{ observed, history, outputs, violations: [...fallen(world), ...unquiet(settledAfterMs), ...check(observed)] },
    }
  } finally {
    over.abort()
    // The watchers notice that the run is over.
    await delay(500)
  }
}

/** How long it took; null when it took too long. */
async function untilQuiet(world: ChaosWorld, { say, now }: { say: (line: string) => void; now: () => number }): Promise<number | null> {
  const quietAt = now()
  say('quiet')
  const settled = await waitFor(() => isQuiet(world), { what: 'all intents to settle', timeoutMs: quietMs }).then(
    () => Math.round(now() - quietAt),
    () => null,
  )
  say(settled === null ? `not settled ${quietMs} ms later` : `settled ${settled} ms later`)
  return settled
}

const unquiet = (settledAfterMs: number | null): Violation[] =>
  settledAfterMs === null
    ? [{ rule: 'not settled in time', what: `${quietMs} ms after the last kill something is still open`, about: {} }]
    : []

/** Every killed process was started again, so a process that is down now has ended without a kill. */
const fallen = (world: ChaosWorld): Violation[] =>
  world.members
    .filter((member) => !member.isUp())
    .map((member) => ({
      rule: 'process ended without a kill',
      what: `${member.name}:\n${member.output().trimEnd().split('\n').slice(-15).join('\n')}`,
      about: {},
    }))
