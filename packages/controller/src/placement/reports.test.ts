// A node whose reports are late, and controllers that receive them late: placed replicas always fit into the memory that the
// node really has.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { candidate, ramOf, replica } from '../../test/placement-facts.ts'
import { freeMemory, isReportedFor, type LiveReplica } from './room.pure.ts'

const total = 16
/** A report carries the age of its reading; its delay on the way is unknown. */
const longestWayMs = 1_000

type Stage = 'told' | 'loaded' | 'up' | 'ended'
type Row = 'starting' | 'ready' | 'exited'
/** As its process is, and as its row is: that follows, sooner or later. */
type Process = { need: number; stage: Stage; row: Row; readyAt: number | null }
type World = {
  now: number
  readonly others: number
  readonly all: Process[]
  reading: { available: number; at: number }
  report: { available: number; at: number }
}

const actions = ['pass', 'read', 'report', 'place', 'load', 'come_up', 'note_ready', 'end', 'note_exit'] as const
const story = fc.record({
  others: fc.integer({ min: 0, max: 8 }),
  acts: fc.array(fc.record({ do: fc.constantFrom(...actions), which: fc.nat(30), size: fc.integer({ min: 1, max: 12 }) }), {
    minLength: 20,
    maxLength: 120,
  }),
})

const used = ({ others, all }: World): number =>
  others + all.reduce((sum, { need, stage }) => sum + (stage === 'loaded' || stage === 'up' ? need : 0), 0)

const liveOf = ({ need, row, readyAt }: Process, { report }: World): LiveReplica =>
  replica({
    need,
    state: row === 'ready' ? 'ready' : 'starting',
    isReported: isReportedFor(readyAt === null ? null : report.at - readyAt),
  })

const free = (world: World): number =>
  freeMemory(
    candidate('one', {
      ...ramOf(total, world.report.available),
      replicas: world.all.filter(({ row }) => row !== 'exited').map((process) => liveOf(process, world)),
    }),
    'ram',
  )

const next: Readonly<Record<string, readonly [Stage, Stage]>> = {
  load: ['told', 'loaded'],
  come_up: ['loaded', 'up'],
  end: ['up', 'ended'],
}

function act(world: World, { do: what, which, size }: { do: (typeof actions)[number]; which: number; size: number }): boolean {
  const pick = (fits: (process: Process) => boolean): Process | undefined => {
    const found = world.all.filter(fits)
    return found[which % Math.max(1, found.length)]
  }
  if (what === 'pass') world.now += size * 2_000
  if (what === 'read') world.reading = { available: total - used(world), at: world.now }
  // As receivers see it: with its age, and delayed.
  if (what === 'report') world.report = { available: world.reading.available, at: world.reading.at + longestWayMs }
  if (what === 'place' && size <= free(world)) return world.all.push({ need: size, stage: 'told', row: 'starting', readyAt: null }) > 0
  const step = next[what]
  const moved = step === undefined ? undefined : pick(({ stage }) => stage === step[0])
  if (moved !== undefined && step !== undefined) moved.stage = step[1]
  if (what === 'note_ready') {
    const process = pick(({ stage, row }) => row === 'starting' && (stage === 'up' || stage === 'ended'))
    if (process !== undefined) Object.assign(process, { row: 'ready', readyAt: world.now })
  }
  if (what === 'note_exit') {
    const process = pick(({ stage, row }) => stage === 'ended' && row !== 'exited')
    if (process !== undefined) process.row = 'exited'
  }
  return false
}

it('W19 used memory never exceeds the total, however late heartbeats, starts and ends are reported', () => {
  let placed = 0
  fc.assert(
    fc.property(story, ({ others, acts }) => {
      const first = { available: total - others, at: 0 }
      const world: World = { now: 0, others, all: [], reading: first, report: first }
      for (const each of acts) {
        placed += Number(act(world, each))
        if (used(world) > total) expect(used(world)).toBeLessThanOrEqual(total)
      }
    }),
    { numRuns: 4_000 },
  )
  expect(placed).toBeGreaterThan(4_000)
})
