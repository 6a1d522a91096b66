// Kills what is up and starts what is down, so many times in so long, as the seed has it.
import { setTimeout as delay } from 'node:timers/promises'
import type { Down } from './observation.ts'
import type { Random } from './random.ts'
import type { Member } from './world.ts'

export interface NemesisOptions {
  readonly members: readonly Member[]
  readonly random: Random
  readonly kills: number
  readonly durationMs: number
  readonly say: (line: string) => void
  readonly now: () => number
}

/** How often each kind is hit, and how long it stays down. */
const weights = { worker: 5, controller: 4, nats: 2, postgres: 2 }
const longestDownMs = 3_000

/** Resolves when everything was started again. */
export async function rage(options: NemesisOptions): Promise<{ downs: Down[]; kills: Readonly<Record<Member['kind'], number>> }> {
  const { members, random, durationMs, now } = options
  const downs: Down[] = []
  const kills = { worker: 0, controller: 0, nats: 0, postgres: 0 }
  const resurrections: Promise<void>[] = []
  const began = now()
  for (let number = 0; number < options.kills; number += 1) {
    const at = began + ((number + random.next()) * durationMs) / options.kills
    await delay(Math.max(0, at - now()))
    const victim = choose(members, random)
    const downMs = random.next() ** 2 * longestDownMs
    if (victim === null) continue
    kills[victim.kind] += 1
    resurrections.push(killAndStart(victim, downMs, { ...options, downs }))
  }
  await Promise.all(resurrections)
  return { downs, kills }
}

/** Chooses among the members that are up, also among those that are still starting. */
function choose(members: readonly Member[], random: Random): Member | null {
  const kinds = members
    .filter((member) => member.isUp())
    .flatMap((member) => Array.from({ length: weights[member.kind] }, () => member.kind))
  if (kinds.length === 0) return null
  const kind = random.pick([...new Set(kinds)].flatMap((each) => Array.from({ length: weights[each] }, () => each)))
  return random.pick(members.filter((member) => member.kind === kind && member.isUp()))
}

async function killAndStart(victim: Member, downMs: number, { say, now, downs }: NemesisOptions & { downs: Down[] }): Promise<void> {
  const from = now()
  say(`kill -9 ${victim.name}`)
  await victim.kill()
  await delay(downMs)
  await victim.start()
  downs.push({ name: victim.name, from, to: now() })
  say(`start ${victim.name} after ${Math.round(now() - from)} ms`)
}
