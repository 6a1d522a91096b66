import { NodeId, type Failure } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RolloutAction } from '../store/rollouts.ts'
import { decideRollout, type RolloutFacts, type RolloutNode, type RolloutStage } from './rollout.pure.ts'

const failure: Failure = { code: 'integrity', retry: 'never', message: 'another digest' }
const held: RolloutStage = { state: 'waiting' }
const begun: RolloutStage = { state: 'begun', cancelRequested: false }
const upgraded: RolloutStage = { state: 'upgraded' }
const settled: RolloutStage = { state: 'settled' }
const returning: RolloutStage = { state: 'returning' }
const failed: RolloutStage = { state: 'failed', failure }
const watched = 'installed; watching its replicas for 10 s'
const proving = (more: Partial<Extract<RolloutStage, { state: 'proving' }>> = {}): RolloutStage => ({
  ...{ state: 'proving', message: watched, left: [], notes: [], trouble: null, cancelRequested: false },
  ...more,
})
const bad = proving({ trouble: { kind: 'check', model: 'tiny' } })
const moving = proving({ left: ['small', 'tiny'], message: 'installed; 2 replicas (small, tiny) are still to be moved' })
const backOn = (left: string[] = []): RolloutStage => ({ state: 'back', left, notes: [], error: 'e' })
const long = 15 * 60_000
const node = (name: string, ring: number | null, stage: RolloutStage, more: Partial<RolloutNode> = {}): RolloutNode => ({
  ...{ nodeId: NodeId.parse(name), name, ring, isReachable: true, canReturn: true, stage },
  ...more,
})
const away = { isReachable: false }
const facts = (nodes: RolloutNode[], more: Partial<RolloutFacts> = {}): RolloutFacts => ({
  ...{
    backend: 'llama',
    spec: { canary: 1, maxParallel: 2, minHealthyMs: 10_000 },
    ring: 1,
    rings: 3,
    wellMs: null,
    waits: null,
    failure: null,
    isPaused: false,
    nodes,
  },
  ...more,
})
const show = (action: RolloutAction): string => {
  if ('nodeId' in action) return `${action.do} ${action.nodeId}`
  if (action.do === 'end') return `end ${action.end}`
  if (action.do === 'wait') return `wait ${action.left}`
  if (action.do === 'enter') return `enter ${action.ring}`
  return action.do === 'watch' ? (action.isWell ? 'well' : 'unwell') : action.do
}
const decide = (given: RolloutFacts): string => decideRollout(given).map(show).join(', ')

describe('while all is well', () => {
  it.each<[string, RolloutNode[], Partial<RolloutFacts>, string]>([
    ['waits for what is installed', [node('a', 1, begun), node('b', 2, held)], {}, ''],
    ['notes what it waits for', [node('a', 1, moving), node('b', 2, held)], {}, 'wait 2'],
    ['waits for what is moved', [node('a', 1, moving), node('b', 2, held)], { waits: { left: 2, ms: long - 1 } }, ''],
    ['anew when one was moved', [node('a', 1, moving)], { waits: { left: 3, ms: long } }, 'wait 2'],
    ['no longer for a cancelled node', [node('a', 1, proving({ left: ['tiny'], cancelRequested: true }))], {}, 'prove a'],
    ['not even if it has trouble', [node('a', 1, { ...bad, cancelRequested: true } as RolloutStage)], {}, 'prove a'],
    ['tells of one that comes late to be taken back', [node('a', 1, begun), node('b', 1, backOn())], {}, 'returned b'],
    ['watches what was moved', [node('a', 1, proving()), node('b', 2, held)], {}, 'well'],
    ['goes on watching', [node('a', 1, proving()), node('b', 2, held)], { wellMs: 9_999 }, ''],
    ['proves what stayed well', [node('a', 1, proving()), node('b', 2, held)], { wellMs: 10_000 }, 'prove a, unwell'],
    ['begins to watch anew when one moves again', [node('a', 1, moving), node('b', 2, held)], { wellMs: 9_000 }, 'wait 2, unwell'],
    ['waits for all of a ring', [node('a', 2, proving()), node('b', 2, begun)], { ring: 2 }, ''],
    ['begins the next ring', [node('a', 1, upgraded), node('b', 2, held), node('c', 2, held)], {}, 'enter 2, begin b, begin c'],
    [
      'no more at once than it may',
      ['b', 'c', 'd'].map((n) => node(n, 2, held)).concat(node('a', 1, upgraded)),
      {},
      'enter 2, begin b, begin c',
    ],
    ['begins nothing while it is paused', [node('a', 1, upgraded), node('b', 2, held)], { isPaused: true }, ''],
    [
      'proves what was begun before a pause',
      [node('a', 1, proving()), node('b', 2, held)],
      { isPaused: true, wellMs: 10_000 },
      'prove a, unwell',
    ],
    ['the rest of a ring after the first of it', [node('a', 2, upgraded), node('b', 2, held)], { ring: 2 }, 'begin b'],
    ['ends when all are done', [node('a', 1, upgraded), node('b', 2, upgraded)], { ring: 2 }, 'end succeeded'],
    ['ends when the rest was called off', [node('a', 1, upgraded), node('b', 2, settled)], {}, 'end succeeded'],
    ['has come to nothing when all was taken over', [node('a', 1, settled), node('b', 2, settled)], {}, 'end cancelled'],
    ['does not wait for what is in no ring', [node('a', 1, upgraded), node('b', null, begun)], {}, 'end succeeded'],
    ['nor fails with it', [node('a', 1, begun), node('b', null, failed)], {}, ''],
    ['tells what it waits for', [node('a', 1, { ...moving, message: '' } as RolloutStage)], {}, 'message a, wait 2'],
  ])('%s', (_, nodes, more, want) => {
    expect(decide(facts(nodes, more))).toBe(want)
  })

  it('proves at once where nothing is to be waited for', () => {
    expect(decide(facts([node('a', 1, proving())], { spec: { canary: 1, maxParallel: 1, minHealthyMs: 0 } }))).toContain('prove a')
  })
})

describe('a node that is away', () => {
  it.each<[string, RolloutNode[], Partial<RolloutFacts>, string]>([
    [
      'is not waited for',
      [node('a', 1, upgraded), node('b', 2, begun, away), node('c', 2, proving())],
      { ring: 2, wellMs: 10_000 },
      'prove c, unwell',
    ],
    ['is left behind at the end', [node('a', 1, upgraded), node('b', 2, begun, away)], { ring: 2 }, 'end succeeded'],
    ['takes the version on its return', [node('a', 1, upgraded), node('b', 2, held, away)], {}, 'begin b, end succeeded'],
    ['counts as done where it came true', [node('a', 1, upgraded), node('b', 2, proving(), away)], {}, 'prove b, end succeeded'],
    [
      'leaves the part of the canary to one of the next ring',
      [node('a', 1, begun, away), node('b', 2, held), node('c', 2, held)],
      {},
      'enter 2, begin b',
    ],
    ['does not let everybody go unproven', [node('a', 1, begun, away), node('b', 2, held, away)], {}, ''],
  ])('%s', (_, nodes, more, want) => {
    expect(decide(facts(nodes, more))).toBe(want)
  })
})

describe('a failure', () => {
  it.each<[string, RolloutNode[], Partial<RolloutFacts>, string]>([
    ['of an intent', [node('a', 1, failed), node('b', 2, held)], {}, 'stop, withdraw b'],
    ['of a check', [node('a', 1, bad), node('b', 2, held)], {}, 'stop, return a, withdraw b'],
    ['takes back what was done', [node('a', 1, upgraded), node('b', 2, failed), node('c', null, upgraded)], {}, 'stop, return a, return c'],
    ['cancels running work', [node('a', 1, failed), node('b', 1, begun), node('c', null, begun)], {}, 'stop, cancel b, cancel c'],
    ['once', [node('a', 1, failed), node('b', 1, { state: 'begun', cancelRequested: true })], { failure }, ''],
    ['goes on where it was', [node('a', 1, returning), node('b', 2, held)], { failure }, 'withdraw b'],
    [
      'of what should move and does not',
      [node('a', 1, moving), node('b', 2, held)],
      { waits: { left: 2, ms: long } },
      'stop, return a, withdraw b',
    ],
    ['waits until nothing runs the new version', [node('a', 1, backOn(['tiny']))], { failure, waits: { left: 1, ms: long - 1 } }, ''],
    ['but not forever', [node('a', 1, backOn(['tiny']))], { failure, waits: { left: 1, ms: long } }, 'returned a'],
    ['and is done then', [node('a', 1, backOn())], { failure }, 'returned a'],
    ['ends when all are back', [node('a', 1, settled), node('b', 2, settled)], { failure }, 'end failed'],
    ['does not wait for those that are away', [node('a', 1, returning, away), node('b', 2, settled)], { failure }, 'end failed'],
    ['with nothing to go back to', [node('a', 1, bad, { canReturn: false })], {}, 'stop, fail a'],
    [
      'leaves nodes that cannot be rolled back',
      [node('a', 1, upgraded, { canReturn: false }), node('b', 2, failed)],
      { failure },
      'end failed',
    ],
  ])('%s', (_, nodes, more, want) => {
    expect(decide(facts(nodes, more))).toBe(want)
  })

  it('names replicas that were not moved, and those that still run the new version at the end', () => {
    const late = { waits: { left: 2, ms: long } }
    expect(decideRollout(facts([node('a', 1, moving)], late))[0]).toMatchObject({
      failure: { code: 'timeout', message: expect.stringContaining('2 replicas (small, tiny) are not moved to the new version') },
    })
    const [done] = decideRollout(facts([node('a', 1, backOn(['small', 'tiny']))], { ...late, failure }))
    expect(done).toMatchObject({ error: 'e; 2 replicas (small, tiny) are still on the new version' })
    const [cancelled] = decideRollout(facts([node('a', 1, { ...moving, cancelRequested: true } as RolloutStage)]))
    expect(cancelled).toMatchObject({ message: 'cancelled; 2 replicas (small, tiny) are still to be moved' })
  })

  it('names the ring, the node and the cause', () => {
    const [stop, back] = decideRollout(facts([node('gpu-1', 2, bad), node('gpu-2', 1, upgraded)]))
    const message = 'ring 2 failed on gpu-1: tiny started on the new version but failed its check'
    expect(stop).toEqual({ do: 'stop', failure: { code: 'internal', retry: 'never', message } })
    expect(back).toMatchObject({ error: message.slice('ring 2 failed on gpu-1: '.length) })
  })
})

// A world that does what it is told: workers, replicas and time move by chance, rollouts by what is decided.
type Happening = Readonly<{ index: number; what: 'done' | 'failed' | 'moved' | 'bad' | 'away' | 'back' | 'confirmed' | 'gone' }>
const happening = fc.record({
  index: fc.nat(7),
  what: fc.constantFrom<Happening['what'][]>('done', 'done', 'moved', 'moved', 'failed', 'bad', 'away', 'back', 'confirmed', 'gone'),
})

function happen(at: RolloutNode, what: Happening['what']): RolloutNode {
  const { stage } = at
  const to = (next: RolloutStage): RolloutNode => ({ ...at, stage: next })
  if (what === 'away' || what === 'back') return { ...at, isReachable: what === 'back' }
  if (what === 'gone') return to(settled)
  if (stage.state === 'begun' && what === 'done') return to(at.ring === null ? upgraded : moving)
  if (stage.state === 'begun' && what === 'failed') return to(failed)
  if (stage.state === 'begun' && stage.cancelRequested && what === 'confirmed') return to(settled)
  if (stage.state === 'proving' && what === 'moved') return to({ ...stage, left: [] })
  if (stage.state === 'proving' && what === 'bad') return to(bad)
  if (stage.state === 'returning' && what === 'failed') return to(settled)
  if (stage.state === 'returning' && what === 'done') return to(backOn(['tiny']))
  if (stage.state === 'back' && what === 'moved') return to({ ...stage, left: [] })
  return at
}

function obey(world: RolloutFacts, action: RolloutAction): RolloutFacts {
  const on = (change: (stage: RolloutStage) => RolloutStage): RolloutFacts => ({
    ...world,
    nodes: world.nodes.map((each) => ('nodeId' in action && each.nodeId === action.nodeId ? { ...each, stage: change(each.stage) } : each)),
  })
  switch (action.do) {
    case 'begin':
      return on(() => begun)
    case 'message':
      return on((stage) => (stage.state === 'proving' ? { ...stage, message: action.message } : stage))
    case 'prove':
      return on(() => upgraded)
    case 'withdraw':
    case 'returned':
    case 'fail':
      return on(() => settled)
    case 'cancel':
      return on((stage) => (stage.state === 'begun' ? { ...stage, cancelRequested: true } : stage))
    case 'return':
      return on(() => returning)
    case 'enter':
      return { ...world, ring: action.ring, wellMs: null, waits: null }
    case 'watch':
      return { ...world, wellMs: action.isWell ? 0 : null }
    case 'wait':
      return { ...world, waits: action.left === null ? null : { left: action.left, ms: 0 } }
    case 'stop':
      return { ...world, failure: action.failure, wellMs: null, waits: null }
    case 'end':
      return world
  }
}

const worlds = fc
  .record({
    canary: fc.integer({ min: 1, max: 3 }),
    maxParallel: fc.integer({ min: 1, max: 3 }),
    count: fc.integer({ min: 1, max: 8 }),
    loose: fc.nat(2),
  })
  .map(({ canary, maxParallel, count, loose }) => {
    const ringOf = (index: number): number => (index < canary ? 1 : 2 + Math.floor((index - canary) / maxParallel))
    const nodes = Array.from({ length: count }, (_, index) => node(`n${index}`, ringOf(index), index < canary ? begun : held))
    const others = Array.from({ length: loose }, (_, index) => node(`x${index}`, null, begun))
    return facts([...nodes, ...others], { spec: { canary, maxParallel, minHealthyMs: 2 }, rings: ringOf(count - 1) })
  })

/** Decides until it rests; what was decided, and how the world is then. */
function rest(from: RolloutFacts, check: (world: RolloutFacts, actions: readonly RolloutAction[]) => void) {
  let world = from
  for (let round = 0; round < 20; round += 1) {
    const actions = decideRollout(world)
    expect(decideRollout(world)).toEqual(actions)
    check(world, actions)
    world = actions.reduce(obey, world)
    if (actions.some((action) => action.do === 'end')) return { world, isEnded: true }
    if (actions.length === 0) return { world, isEnded: false }
  }
  throw new Error('it never comes to rest')
}

const isBusy = ({ isReachable, ring, stage }: RolloutNode): boolean =>
  isReachable && ring !== null && (stage.state === 'begun' || stage.state === 'proving')

function expectSound(world: RolloutFacts, actions: readonly RolloutAction[]): void {
  const of = <Do extends RolloutAction['do']>(what: Do) =>
    actions.filter((action): action is Extract<RolloutAction, { do: Do }> => action.do === what)
  const nodeOf = (id: string): RolloutNode | undefined => world.nodes.find((each) => each.nodeId === id)
  const begins = of('begin').flatMap(({ nodeId }) => nodeOf(nodeId) ?? [])
  const here = begins.filter((each) => each.isReachable)
  const isProven = world.nodes.some((each) => each.ring !== null && each.stage.state === 'upgraded')
  if (here.length > 0) {
    expect(world.nodes.some(isBusy), 'a ring begins when nothing is under way').toBe(false)
    expect(here.length).toBeLessThanOrEqual(isProven ? world.spec.maxParallel : world.spec.canary)
    const ring = Math.max(...here.map((each) => each.ring ?? 0))
    const earlier = world.nodes.filter((each) => each.isReachable && each.ring !== null && each.ring < ring)
    expect(
      earlier.every(({ stage }) => ['upgraded', 'settled'].includes(stage.state)),
      'after the ones before are proven',
    ).toBe(true)
  }
  const hasFailed = world.failure !== null || of('stop').length > 0
  if (hasFailed) {
    expect([...begins, ...of('prove')], 'nothing begins after a failure').toEqual([])
    const returned = new Set(of('return').map(({ nodeId }) => nodeId as string))
    for (const each of world.nodes)
      if (each.stage.state === 'upgraded' || each.stage.state === 'proving') expect(returned.has(each.nodeId), 'all go back').toBe(true)
  }
  for (const { error } of of('return')) expect(error).not.toBe('')
  for (const told of [...of('stop'), ...of('fail')]) expect(told.failure.message).toMatch(/\S/)
  for (const { end } of of('end')) expect(end === 'failed').toBe(hasFailed)
}

it('whatever happens: rings come one after the other, a failure takes all back, and it ends', () => {
  fc.assert(
    fc.property(worlds, fc.array(happening, { maxLength: 60 }), (start, happenings) => {
      let now = rest(start, expectSound)
      for (const { index, what } of happenings) {
        if (now.isEnded) return
        const { world } = now
        const at = index % world.nodes.length
        const nodes = world.nodes.map((each, position) => (position === at ? happen(each, what) : each))
        now = rest({ ...world, nodes, wellMs: world.wellMs === null ? null : world.wellMs + 1 }, expectSound)
      }
      // Everybody is back, and does as told: it comes to an end.
      for (let round = 0; round < 200 && !now.isEnded; round += 1) {
        const { world } = now
        const nodes = world.nodes.map((each) => happen(happen(happen({ ...each, isReachable: true }, 'confirmed'), 'done'), 'moved'))
        now = rest({ ...world, nodes, wellMs: world.wellMs === null ? null : world.wellMs + 2 }, expectSound)
      }
      expect(now.isEnded).toBe(true)
    }),
    { numRuns: 300 },
  )
})
