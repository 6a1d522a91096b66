// Kills, freezes and cuts off what is up, and puts it right again, so many times in so long, as the seed has it.
import { setTimeout as delay } from 'node:timers/promises'
import type { Member } from './members.ts'
import type { Fault } from './observation.ts'
import type { Random } from './random.ts'
import { scanProcesses } from './watch-processes.ts'
import type { ChaosWorld } from './world.ts'

export interface NemesisOptions {
  readonly world: ChaosWorld
  readonly random: Random
  readonly kills: number
  /** Freezes and cuts. */
  readonly disturbances: number
  readonly durationMs: number
  readonly say: (line: string) => void
  readonly now: () => number
}

export type Kills = Readonly<Record<Member['kind'] | 'engine', number>>
type Rage = NemesisOptions & { readonly faults: Fault[]; readonly kills: number; readonly counts: Record<string, number> }

/** How often each kind is hit, and how long it stays down. */
const killWeights = { worker: 5, controller: 4, engine: 3, nats: 2, postgres: 2 } as const
const longestDownMs = 3_000
const longestFrozenMs = 6_000
const longestCutMs = 8_000

/** Resolves when everything was put right. */
export async function rage(options: NemesisOptions): Promise<{ faults: Fault[]; kills: Kills; disturbances: number }> {
  const counts = { worker: 0, controller: 0, engine: 0, nats: 0, postgres: 0 }
  const all: Rage = { ...options, faults: [], counts }
  const repairs: Promise<void>[] = []
  const [killing, disturbing] = [options.random.fork(), options.random.fork()]
  const spread = async (count: number, { random, hit }: { random: Random; hit: (random: Random) => Promise<void> }): Promise<void> => {
    const began = options.now()
    for (let number = 0; number < count; number += 1) {
      const at = began + ((number + random.next()) * options.durationMs) / count
      await delay(Math.max(0, at - options.now()))
      repairs.push(hit(random))
    }
  }
  await Promise.all([
    spread(options.kills, { random: killing, hit: (random) => kill(all, random) }),
    spread(options.disturbances, { random: disturbing, hit: (random) => disturb(all, random) }),
  ])
  await Promise.all(repairs)
  return { faults: all.faults, kills: counts, disturbances: all.faults.filter(({ what }) => what !== 'kill').length }
}

/** Chooses among the members that are up, also among those that are still starting. */
async function kill(all: Rage, random: Random): Promise<void> {
  const downMs = random.next() ** 2 * longestDownMs
  const kinds = Object.entries(killWeights).flatMap(([kind, weight]) => Array.from({ length: weight }, () => kind))
  const kind = random.pick(kinds)
  if (kind === 'engine' && killEngine(all, random)) return
  const victims = all.world.members.filter((member) => member.isUp() && (kind === 'engine' || member.kind === kind))
  if (victims.length === 0) return
  const victim = random.pick(victims)
  all.counts[victim.kind] = (all.counts[victim.kind] ?? 0) + 1
  await during({ what: 'kill', name: victim.name }, all, async () => {
    await victim.kill()
    await delay(downMs)
    await victim.start()
  })
}

/** False: no engine runs. The fault is over at once: nothing restarts an engine but its worker. */
function killEngine({ world, counts, say }: Rage, random: Random): boolean {
  const marks = new Map(world.workers.map(({ mark, name }) => [mark, name]))
  const engines = scanProcesses().filter(({ mark }) => marks.has(mark))
  if (engines.length === 0) return false
  const { pid, mark, replica } = random.pick(engines)
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
  counts['engine'] = (counts['engine'] ?? 0) + 1
  say(`kill -9 the engine of ${replica} on ${marks.get(mark) ?? ''}`)
  return true
}

async function disturb(all: Rage, random: Random): Promise<void> {
  const { world } = all
  const frozenMs = 500 + random.next() ** 2 * longestFrozenMs
  const cutMs = 500 + random.next() ** 2 * longestCutMs
  const dice = random.next()
  if (dice < 0.4) {
    const victims = world.members.filter((member) => member.isUp())
    if (victims.length > 0) await freeze(all, random.pick(victims), frozenMs)
  } else if (dice < 0.6) await cutWorker(all, random, cutMs)
  else if (dice < 0.75) await cutController(all, random, cutMs)
  else if (dice < 0.85) await losePackets(all, random, cutMs)
  else await cutRegistry(all, cutMs / 2)
}

async function freeze(all: Rage, victim: Member, ms: number): Promise<void> {
  await during({ what: 'freeze', name: victim.name }, all, async () => {
    victim.freeze()
    await delay(ms)
    victim.thaw()
  })
}

/** From the bus alone, or from everybody. */
async function cutWorker(all: Rage, random: Random, ms: number): Promise<void> {
  const { workers, controllers, busWire } = all.world
  const worker = random.pick(workers)
  const isAlone = random.next() < 0.5
  const callers = isAlone ? [busWire, ...controllers.map(({ wires }) => wires.own)] : [busWire]
  await during({ what: 'cut', name: worker.name }, all, async () => {
    for (const wire of callers) wire.cut('dark', worker.id)
    if (isAlone) worker.gateway.cut('dark', null)
    await delay(ms)
    for (const wire of callers) wire.mend(worker.id)
    worker.gateway.mend(null)
  })
}

/** From the bus, from the database, or from both. */
async function cutController(all: Rage, random: Random, ms: number): Promise<void> {
  const { name, wires } = random.pick(all.world.controllers)
  const cut = random.some([wires.bus, wires.database])
  await during({ what: 'cut', name }, all, async () => {
    for (const wire of cut) wire.cut('dark', null)
    await delay(ms)
    for (const wire of cut) wire.mend(null)
  })
}

/** On every line of a worker and of a controller. */
async function losePackets(all: Rage, random: Random, ms: number): Promise<void> {
  const { workers, controllers, busWire } = all.world
  const [worker, controller] = [random.pick(workers), random.pick(controllers)]
  const wires = [worker.gateway, ...Object.values(controller.wires)]
  const lose = async (): Promise<void> => {
    busWire.cut('lossy', worker.id)
    for (const wire of wires) wire.cut('lossy', null)
    await delay(ms)
    for (const wire of wires) wire.mend(null)
    busWire.mend(worker.id)
  }
  await during({ what: 'loss', name: worker.name }, all, () => during({ what: 'loss', name: controller.name }, all, lose))
}

async function cutRegistry(all: Rage, ms: number): Promise<void> {
  await during({ what: 'cut', name: 'registry' }, all, async () => {
    all.world.registryWire.cut('broken', null)
    await delay(ms)
    all.world.registryWire.mend(null)
  })
}

async function during({ what, name }: Pick<Fault, 'what' | 'name'>, { say, now, faults }: Rage, work: () => Promise<void>): Promise<void> {
  const from = now()
  say(`${what} ${name}`)
  await work()
  faults.push({ what, name, from, to: now() })
  say(`${name} is back ${Math.round(now() - from)} ms after its ${what}`)
}
