import { Digest, ModelName, NodeId } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { choosePlacement, whyNowhere, type Candidate, type PlacementModel } from './choose.ts'

const [a, b] = ['a', 'b'].map((letter) => Digest.parse(`sha256:${letter.repeat(64)}`))
const model = (over: Partial<PlacementModel> = {}): PlacementModel => ({
  ...{
    name: ModelName.parse('tiny'),
    backend: 'llama',
    selector: null,
    files: [],
    isStaging: false,
    isSpread: false,
    avoid: null,
    pin: null,
  },
  ...over,
})
const node = (name: string, over: Partial<Candidate> = {}): Candidate => ({
  ...{ id: NodeId.parse(name), name, nodeType: 'backend', status: 'healthy', statusReason: '', runsModels: true, labels: {} },
  ...{ hasBackend: true, unfit: null, files: new Set<string>(), availableDisk: null, totalRam: null, totalVram: null },
  ...{ replicas: 0, replicasOfModel: 0 },
  ...over,
})
const file = { digest: a ?? null, size: 100 }

describe('a node is not eligible', () => {
  it.each<[string, Partial<Candidate>, Partial<PlacementModel>, string]>([
    ['when it is an agent', { nodeType: 'agent' }, {}, 'agent'],
    ['when it is not approved', { status: 'pending', statusReason: 'waits' }, {}, 'it is pending: waits'],
    ['when it is silent', { status: 'unhealthy', statusReason: 'no heartbeat' }, {}, 'it is unhealthy: no heartbeat'],
    ['when it is drained', { status: 'draining', statusReason: 'drained' }, {}, 'it is draining'],
    ['when its worker knows no loads', { runsModels: false }, {}, 'too old'],
    ['when its labels do not match', { labels: { 'gpu.vendor': 'amd' } }, { selector: { 'gpu.vendor': 'nvidia' } }, 'selector'],
    [
      'when there is no build of the backend for it',
      { hasBackend: false, unfit: 'nothing for linux/arm64' },
      {},
      'nothing for linux/arm64',
    ],
    ['when its disk is too small', { availableDisk: 99 }, { files: [file] }, 'need 100 bytes on disk, and 99 are free'],
    ['when its memory is too small', { totalRam: 50, totalVram: 99 }, { files: [file] }, 'the node has 99 bytes of memory'],
    ['when it has one and each shall have one', { replicasOfModel: 1 }, { isSpread: true }, 'has a replica'],
  ])('%s', (_, over, wanted, reason) => {
    const { nodes } = choosePlacement(model(wanted), [node('one', over)])
    expect(nodes).toMatchObject([{ eligible: false, score: 0, reason: expect.stringContaining(reason) }])
  })
})

describe('a node is eligible', () => {
  it.each<[string, Partial<Candidate>, Partial<PlacementModel>]>([
    ['when the backend can be installed', { hasBackend: false }, {}],
    ['when it has the build already, whatever the gallery offers', { unfit: 'nothing for it' }, {}],
    ['when nothing is known of its disk and memory', {}, { files: [file] }],
    ['when it has the files already, on a full disk', { availableDisk: 0, files: new Set([file.digest ?? '']) }, { files: [file] }],
    [
      'for staging, without the backend and with little memory',
      { hasBackend: false, unfit: 'no', totalRam: 1 },
      { isStaging: true, files: [file] },
    ],
  ])('%s', (_, over, wanted) => {
    expect(choosePlacement(model(wanted), [node('one', over)]).nodes).toMatchObject([{ eligible: true, reason: '' }])
  })
})

describe('of two nodes', () => {
  it.each<[string, Partial<Candidate>, Partial<Candidate>, Partial<PlacementModel>]>([
    ['the one that has the backend', { hasBackend: true, replicas: 9 }, { hasBackend: false }, {}],
    ['the one that has the files', { files: new Set([a ?? '']), replicas: 3 }, { files: new Set([b ?? '']) }, { files: [file] }],
    ['the one that runs less', { replicas: 1 }, { replicas: 2 }, {}],
    ['the one without a replica of the model', { hasBackend: false }, { replicasOfModel: 1 }, {}],
    ['the one where it did not fail just now', { hasBackend: false }, {}, { avoid: NodeId.parse('other') }],
    ['the one with more room, for staging', { availableDisk: 2 ** 40 }, { availableDisk: 2 ** 30 }, { isStaging: true }],
  ])('%s is taken', (_, best, other, wanted) => {
    const { nodes } = choosePlacement(model(wanted), [node('other', other), node('zz-best', best)])
    expect(nodes[0]).toMatchObject({ node_name: 'zz-best', eligible: true })
  })

  it('the one where it failed is taken when there is no other', () => {
    const { nodes } = choosePlacement(model({ avoid: NodeId.parse('one') }), [node('one'), node('two', { nodeType: 'agent' })])
    expect(nodes[0]).toMatchObject({ node_name: 'one', eligible: true })
  })
})

it('why there is nowhere to go names each node, and few of many', () => {
  expect(whyNowhere(model(), choosePlacement(model(), []))).toContain('there is none yet')
  const many = Array.from({ length: 20 }, (_, index) => node(`n${index}`, { status: 'draining', statusReason: 'drained' }))
  expect(whyNowhere(model(), choosePlacement(model(), many))).toMatch(/n0: it is draining: drained; .*and 12 more$/)
})

it('I25 every node that is not eligible has a reason, and eligible ones come first', () => {
  const arbitrary = fc.record({
    nodeType: fc.constantFrom<Candidate['nodeType']>('backend', 'agent'),
    status: fc.constantFrom<Candidate['status']>('healthy', 'draining', 'offline'),
    hasBackend: fc.boolean(),
    unfit: fc.constantFrom(null, 'no build'),
    availableDisk: fc.option(fc.nat(200)),
    totalRam: fc.option(fc.nat(200)),
    replicas: fc.nat(60),
    replicasOfModel: fc.nat(3),
  })
  fc.assert(
    fc.property(fc.array(arbitrary, { maxLength: 12 }), (facts) => {
      const { nodes } = choosePlacement(
        model({ files: [file] }),
        facts.map((each, index) => node(`n${index}`, each)),
      )
      expect(nodes).toHaveLength(facts.length)
      for (const each of nodes) expect(each.eligible).toBe(each.reason === '')
      const flags = nodes.map(({ eligible }) => eligible)
      expect(flags).toEqual(flags.toSorted((x, y) => Number(y) - Number(x)))
    }),
  )
})
