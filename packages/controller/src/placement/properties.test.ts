// Properties of every placement over random nodes and models, checked by following decisions one after the other as
// controllers make them.
import { ModelName, NodeId, OperationId, matchesSelector, type Selector } from '@muster/protocol'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { candidate, modelToPlace, replica } from '../../test/placement-facts.ts'
import { choosePlacement, explainNoNode, type Candidate, type Placement, type PlacementModel } from './placement.pure.ts'
import { amountIn, type LiveReplica, type Memory } from './room.pure.ts'

const mb = 1e6
/** The usual case. */
const many = <const T>(usual: T): T[] => Array.from({ length: 8 }, () => usual)
const pool = fc.record({
  total: fc.option(
    fc.integer({ min: 0, max: 600 }).map((size) => size * mb),
    { freq: 8 },
  ),
  available: fc.option(
    fc.integer({ min: 0, max: 900 }).map((size) => size * mb),
    { freq: 1 },
  ),
})
const nodes = fc.array(
  fc.record({
    ram: pool,
    vram: pool,
    hasSharedMemory: fc.constantFrom(true, ...many(false)),
    device: fc.constantFrom<Candidate['device']>('cpu', 'gpu'),
    nodeType: fc.constantFrom<Candidate['nodeType']>('agent', ...many('backend')),
    status: fc.constantFrom<Candidate['status']>('draining', 'offline', ...many('healthy')),
    statusReason: fc.constant('it is so'),
    isArriving: fc.boolean(),
    labels: fc.record({ zone: fc.constantFrom('a', 'b') }, { requiredKeys: [] }),
    hasBackend: fc.boolean(),
    installId: fc.constantFrom(OperationId.parse('op-1'), ...many(null)),
    unfit: fc.constantFrom('no build', ...many(null)),
    artifactSize: fc.option(fc.integer({ max: 50 * mb, min: 0 })),
    availableDisk: fc.option(fc.integer({ max: 500 * mb, min: 0 }), { freq: 1 }),
    maxReplicas: fc.option(fc.integer({ min: 1, max: 3 })),
  }),
  { minLength: 1, maxLength: 3 },
)
const models = fc.array(
  fc.record({
    size: fc.option(
      fc.integer({ min: 50, max: 300 }).map((size) => size * mb),
      { freq: 8 },
    ),
    /** The share of a model on GPUs that its other layers need in RAM. */
    rest: fc.constantFrom(0, 0, 0.3, 1),
    priority: fc.integer({ min: 0, max: 2 }),
    min: fc.integer({ min: 0, max: 1 }),
    more: fc.integer({ min: 1, max: 2 }),
    isSpread: fc.constantFrom(true, ...many(false)),
    selector: fc.constantFrom<Selector | null>({ zone: 'a' }, { zone: '!' }, { zone: '!a' }, { zone: ['a', 'b'] }, ...many(null)),
  }),
  { minLength: 1, maxLength: 5 },
)
type Model = PlacementModel & Readonly<{ min: number; desired: number }>
type World = { nodes: Candidate[] }
type Drawn = typeof world extends fc.Arbitrary<infer W> ? W : never

const world = fc.record({
  nodes,
  models,
  asked: fc.array(fc.record({ which: fc.nat(4), isIdle: fc.boolean() }), { minLength: 5, maxLength: 40 }),
})
const begin = (facts: Drawn['nodes']): World => ({
  nodes: facts.map((each, index) => candidate(`n${index}`, each)),
})
const modelsOf = (facts: Drawn['models']): Model[] =>
  facts.map(({ size, rest, min, more, ...each }, index) => {
    const model = modelToPlace({ ...each, name: ModelName.parse(`m${index}`), files: [{ digest: null, size }] })
    const { vram } = model.memory.gpu
    return { ...model, memory: { ...model.memory, gpu: { vram, ram: rest * vram } }, ...{ min, desired: min + more } }
  })

const started = (model: Model, { device }: Candidate, isIdle: boolean): LiveReplica =>
  replica({
    ...{ model: model.name, need: model.memory[device], priority: model.priority, isSpread: model.isSpread },
    ...{ min: model.min, desired: model.desired, state: isIdle ? 'ready' : 'starting' },
  })

function follow(now: World, model: Model, { placement, isIdle }: { placement: Placement; isIdle: boolean }): void {
  const [best] = placement.nodes
  const onNode = (id: string, change: (replicas: readonly LiveReplica[], node: Candidate) => LiveReplica[]): void => {
    now.nodes = now.nodes.map((node) => (node.id === id ? { ...node, replicas: change(node.replicas, node) } : node))
  }
  if (best?.eligible) return onNode(best.node_id, (replicas, node) => [...replicas, started(model, node, isIdle)])
  const { eviction } = placement
  if (eviction !== null) onNode(eviction.nodeId, (replicas) => replicas.filter(({ id }) => !eviction.victims.includes(id)))
}

const servingOf = (now: World, name: string): number =>
  now.nodes.flatMap(({ replicas }) => replicas).filter(({ model, isServing }) => model === name && isServing).length

function checkFits({ nodes: all }: World): void {
  for (const node of all) {
    const { replicas, maxReplicas } = node
    for (const kind of ['ram', 'vram'] as const) {
      const booked = replicas.reduce((sum, { need }) => sum + amountIn(node, kind, need), 0)
      const { total } = node[kind]
      if (total !== null) expect(booked).toBeLessThanOrEqual(total)
    }
    if (maxReplicas !== null) expect(replicas.length).toBeLessThanOrEqual(maxReplicas)
  }
}

function checkVictims(before: World, model: Model, eviction: NonNullable<Placement['eviction']>): void {
  const all = before.nodes.flatMap(({ replicas }) => replicas)
  const victims = eviction.victims.map((id) => all.find((each) => each.id === id))
  const home = before.nodes.find(({ id }) => id === eviction.nodeId)
  expect(victims.every((victim) => victim !== undefined && home?.replicas.includes(victim))).toBe(true)
  for (const victim of victims) {
    if (victim === undefined) continue
    expect(victim.model).not.toBe(model.name)
    expect(victim.isSpread).toBe(false)
    expect(victim.priority).toBeLessThanOrEqual(model.priority)
    expect(victim.isServing).toBe(true)
    if (victim.priority === model.priority) expect(victim.inFlight).toBe(0)
    const gone = victims.filter((each) => each?.model === victim.model)
    expect(servingOf(before, victim.model) - gone.length).toBeGreaterThanOrEqual(victim.min)
  }
}

it('capacity is never exceeded, no selector violated, no minimum evicted, and no higher priority', () => {
  fc.assert(
    fc.property(world, ({ nodes: facts, models: wanted, asked }) => {
      const [now, all] = [begin(facts), modelsOf(wanted)]
      for (const { which, isIdle } of asked) {
        const model = all[which % all.length]
        if (model === undefined) continue
        const placement = choosePlacement(model, now.nodes)
        const [best] = placement.nodes
        const labels = now.nodes.find(({ id }) => id === (best?.eligible ? best.node_id : placement.eviction?.nodeId))?.labels
        if (labels !== undefined && model.selector !== null) expect(matchesSelector(model.selector, labels)).toBe(true)
        if (placement.eviction !== null) checkVictims(now, model, placement.eviction)
        follow(now, model, { placement, isIdle })
        checkFits(now)
      }
    }),
    { numRuns: 500 },
  )
})

it('an eviction suffices: the model fits once the victims are gone', () => {
  let evictions = 0
  fc.assert(
    fc.property(world, ({ nodes: facts, models: wanted, asked }) => {
      const [now, all] = [begin(facts), modelsOf(wanted)]
      for (const { which } of asked) {
        const model = all[which % all.length]
        if (model === undefined) continue
        const placement = choosePlacement(model, now.nodes)
        // Ended replicas free their memory, and the node reports it.
        const freed = now.nodes.flatMap(({ replicas }) => replicas).filter(({ id }) => placement.eviction?.victims.includes(id))
        follow(now, model, { placement, isIdle: true })
        if (placement.eviction === null) continue
        evictions += 1
        const { nodeId } = placement.eviction
        const vacated = (before: Memory): Memory =>
          freed.reduce((sum, { need }) => ({ ram: sum.ram + need.ram, vram: sum.vram + need.vram }), before)
        now.nodes = now.nodes.map((node) => (node.id === nodeId ? { ...node, vacatedMemory: vacated(node.vacatedMemory) } : node))
        const after = choosePlacement({ ...model, pin: NodeId.parse(nodeId) }, now.nodes)
        expect(after.nodes[0]).toMatchObject({ node_id: nodeId, eligible: true })
      }
    }),
    { numRuns: 500 },
  )
  expect(evictions).toBeGreaterThan(50)
})

it('I25 every node is listed, eligible ones first, all others with a reason; deterministic', () => {
  fc.assert(
    fc.property(world, ({ nodes: facts, models: wanted, asked }) => {
      const [now, all] = [begin(facts), modelsOf(wanted)]
      for (const { which, isIdle } of asked) {
        const model = all[which % all.length]
        if (model === undefined) continue
        const placement = choosePlacement(model, now.nodes)
        expect(choosePlacement(model, structuredClone(now.nodes))).toEqual(placement)
        expect(new Set(placement.nodes.map(({ node_id: id }) => id))).toEqual(new Set(now.nodes.map(({ id }) => id)))
        for (const { eligible, reason, excludedBy } of placement.nodes) {
          expect(eligible).toBe(reason === '')
          expect(eligible).toBe(excludedBy === null)
        }
        const ranks = placement.nodes.map(({ eligible, score }) => (eligible ? score : -1))
        expect(ranks).toEqual(ranks.toSorted((x, y) => y - x))
        if (!placement.nodes[0]?.eligible) expect(explainNoNode(model, placement)).toContain(`no node can run ${model.name}: `)
        follow(now, model, { placement, isIdle })
      }
    }),
    { numRuns: 300 },
  )
})
