// One run: a cluster, clients that change everything, a nemesis that kills, freezes and cuts off, then quiet, and the check.
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '@muster/testkit'
import { check } from './check.ts'
import { conclude, isQuiet, type Concluded } from './conclude.ts'
import { rage } from './nemesis.ts'
import type { Observation, Violation } from './observation.ts'
import { createRandom, type Random } from './random.ts'
import { watchControllers } from './watch-controllers.ts'
import { watchDisks } from './watch-disks.ts'
import { watchFleet } from './watch-fleet.ts'
import { watchProcesses } from './watch-processes.ts'
import { keepActing, oneOfEach, submitBackend, type ClientOptions, type Ledger } from './clients.ts'
import { changeModel, meddle, restore } from './more-clients.ts'
import { startChaosWorld, type ChaosSize, type ChaosWorld } from './world.ts'

export interface ChaosOptions {
  readonly seed: number
  readonly durationMs: number
  readonly kills: number
  /** Freezes and cuts. */
  readonly disturbances: number
  readonly size: ChaosSize
  readonly clients: number
  /** Between two submissions of one client, on average. */
  readonly submitEveryMs: number
  readonly say: (line: string) => void
}

export interface ChaosReport {
  readonly violations: readonly Violation[]
  readonly kills: Readonly<Record<string, number>>
  readonly disturbances: number
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
  const { seed, size, durationMs, kills, disturbances } = options
  const began = performance.now()
  const now = (): number => performance.now() - began
  const say = (line: string): void => options.say(`${(now() / 1000).toFixed(3).padStart(8)} ${line}`)
  say(`seed ${seed}: ${kills} kills and ${disturbances} other faults in ${durationMs / 1000} s`)
  await using world = await startChaosWorld(size)
  say('the cluster is there')
  const random = createRandom(seed)
  world.offers.offer(oneOfEach(world.images, random))
  const over = new AbortController()
  const ledger: Ledger = { accepted: [], modelOperations: [], changes: [], models: new Set(), drained: new Set(), refused: new Map() }
  const watching = watch({ world, ledger, size, random: random.fork(), now }, over.signal)
  const nemesis = rage({ world, random: random.fork(), kills, disturbances, durationMs, say, now })
  const enough = new AbortController()
  const acting = act(options, { world, random, say, now }, { ledger, signal: enough.signal })
  try {
    const { faults, ...done } = await Promise.race([nemesis, acting.then(() => nemesis)])
    enough.abort()
    await acting
    await restore({ world, random, say, now }, ledger)
    const settledAfterMs = await untilQuiet(world, { say, now })
    const { seen, concluded } = await watching.end()
    const { history, submitted, ...end } = concluded
    const observed: Observation = {
      ...{ controllers: size.controllers, faults, changes: ledger.changes, models: [...ledger.models] },
      ...{ accepted: [...ledger.accepted, ...submitted], modelOperations: ledger.modelOperations },
      ...{ ...end, ...seen },
    }
    const outputs = Object.fromEntries(world.members.map((member) => [member.name, member.output()]))
    const accepted = ledger.accepted.length + ledger.modelOperations.length
    return {
      ...{ ...done, accepted, refused: Object.fromEntries(ledger.refused), settledAfterMs },
      ...{ observed, history, outputs, violations: [...fallen(world), ...unquiet(settledAfterMs), ...check(observed)] },
    }
  } finally {
    over.abort()
    // The watchers notice that the run is over.
    await delay(500)
  }
}

type Watched = Readonly<{ world: ChaosWorld; ledger: Ledger; size: ChaosSize; random: Random; now: () => number }>

function watch({ world, ledger, size, random, now }: Watched, signal: AbortSignal) {
  const known = (): string[] => [...ledger.accepted, ...ledger.modelOperations].map(({ operation }) => operation)
  const disks = watchDisks({ workers: world.workers, backends: size.backends, now }, signal)
  const processes = watchProcesses({ workers: world.workers, now }, signal)
  const controllers = watchControllers({ world, disks, random, now, known }, signal)
  const fleet = watchFleet({ world, backends: size.backends, processes, now }, signal)
  return {
    async end() {
      await disks.lookOnce()
      processes.lookOnce()
      const concluded = await conclude(world, { asked: known(), now })
      const seen = {
        ...{ shown: controllers.shown(), clear: controllers.clear(), commands: disks.commands(), disk: disks.disk() },
        ...{ lives: processes.lives(), shownReplicas: fleet.replicas(), shownBackends: fleet.backends() },
      }
      return { concluded, seen }
    },
  }
}

type Acting = Readonly<{ ledger: Ledger; signal: AbortSignal }>

/** Several clients submit operations about backends; one changes models, and one meddles with everything. */
async function act(
  { clients, submitEveryMs, size }: ChaosOptions,
  shared: Omit<ClientOptions, 'everyMs'>,
  { ledger, signal }: Acting,
): Promise<void> {
  const client = (change: typeof submitBackend): Promise<void> => {
    const options = { ...shared, random: shared.random.fork(), everyMs: submitEveryMs }
    return keepActing(options, (key) => change(options, ledger, key), signal)
  }
  await Promise.all([
    ...Array.from({ length: clients }, () => client(submitBackend)),
    ...(size.models.length === 0 ? [] : [client(changeModel)]),
    client(meddle),
  ])
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
