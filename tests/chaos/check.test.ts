// Proof that the checker finds faults: a run without any, and the same run with one planted.
import { describe, expect, it } from 'vitest'
import { check } from './check.ts'
import {
  wholeOperation,
  type AcceptedModelOperation,
  type AcceptedSubmission,
  type Command,
  type FinalIntent,
  type FinalModel,
  type FinalNode,
  type Life,
  type Observation,
  type OnDisk,
  type ShownReplica,
  type ShownRun,
} from './observation.ts'
import { createRandom } from './random.ts'

const [one, two] = ['sha256:1', 'sha256:2']
const about = { node: 'n', backend: 'b' }
const success = { status: 'success', isSettled: true, errorCode: null, because: null }
const downloading = { status: 'downloading', isSettled: false, errorCode: null, because: null }
const queued = { status: 'queued', isSettled: false, errorCode: null, because: null }
const place = { operation: 'op-1', node: 'n', controller: 0 }

const submission: AcceptedSubmission = {
  operation: 'op-1',
  kind: 'install',
  backend: 'b',
  digest: one,
  nodes: ['n'],
  sentAt: 1000,
  answeredAt: 1100,
}
const command: Command = {
  ...about,
  ...{ id: 1, kind: 'install', generation: 1, digest: one, before: 1150, seenAt: 1200 },
  end: { state: 'succeeded', before: 4900, seenAt: 5000 },
}
const intent: FinalIntent = { ...about, kind: 'install', generation: 1, digest: one, isExact: true, state: 'applied', failure: null }
const shownSuccess: ShownRun = { ...place, ...success, from: 5150, seenAt: 5160, to: 5160 }
const finalNode: FinalNode = { ...place, ...success, generation: 1 }
const otherFinalNode: FinalNode = { ...finalNode, controller: 1 }
const load: AcceptedModelOperation = { operation: 'op-m', kind: 'load', model: 'm', sentAt: 6000, answeredAt: 6100 }
const loaded: FinalNode = {
  operation: 'op-m',
  node: wholeOperation,
  controller: 0,
  status: 'succeeded',
  isSettled: true,
  errorCode: null,
  because: null,
  generation: null,
}
const life: Life = { node: 'n', replica: 'r', after: 6900, from: 7000, to: 20_000, before: Infinity }
const ready: ShownReplica = { controller: 0, node: 'n', replica: 'r', shown: 'ready', from: 7300, seenAt: 7350, to: 20_000 }
const finalModel: FinalModel = { controller: 0, model: 'm', state: 'ready', replicasReady: 1, replicasDesired: 1, failure: null }
const absent: OnDisk = { ...about, digest: null, mark: '', from: 0, to: 4900 }
const present: OnDisk = { ...about, digest: one, mark: 'i1', from: 4950, to: 20_000 }

/** Version 1 was submitted at 1000, begun at 1200 and done at 5000; a model was loaded at 7000. Both controllers showed that. */
const well: Observation = {
  controllers: 2,
  accepted: [submission],
  shown: [
    { ...place, ...queued, from: 1150, seenAt: 1160, to: 1250 },
    { ...place, ...downloading, from: 1350, seenAt: 1360, to: 5050 },
    shownSuccess,
    { ...shownSuccess, controller: 1, from: 5180, seenAt: 5190, to: 5180 },
  ],
  clear: [
    { controller: 0, node: 'n', isDraining: false, from: 0, to: 20_000 },
    { controller: 1, node: 'n', isDraining: false, from: 0, to: 20_000 },
  ],
  commands: [command],
  disk: [absent, present],
  intents: [intent],
  owners: [{ generation: 1, operation: 'op-1', how: 'requested' }],
  failedTries: [],
  finalNodes: [finalNode, otherFinalNode, loaded, { ...loaded, controller: 1 }],
  operations: ['op-1', 'op-m'],
  faults: [],
  modelOperations: [load],
  changes: [],
  lives: [life],
  shownReplicas: [ready, { ...ready, controller: 1 }],
  shownBackends: [
    { ...about, controller: 0, digest: null, from: 0, seenAt: 10, to: 4900 },
    { ...about, controller: 0, digest: one, from: 5200, seenAt: 5250, to: 20_000 },
  ],
  models: ['m'],
  finalModels: [finalModel, { ...finalModel, controller: 1 }],
}

const rulesBroken = (observed: Observation): string[] => [...new Set(check(observed).map(({ rule }) => rule))]

describe('the checker', () => {
  it('finds nothing in a run in which all is well', () => expect(check(well)).toEqual([]))

  const later = { ...submission, operation: 'op-2', sentAt: 6000, answeredAt: 6100 }
  const laterRow = { ...finalNode, operation: 'op-2', generation: 1 }
  const shownCancelled: ShownRun = { ...shownSuccess, status: 'cancelled' }
  const cancelled: Observation = {
    ...well,
    changes: [{ operation: 'op-1', kind: 'cancel', sentAt: 2000, answeredAt: 2100 }],
    shown: [shownCancelled],
    finalNodes: well.finalNodes.map((each) => (each.operation === 'op-1' ? { ...each, status: 'cancelled' } : each)),
    intents: [{ ...intent, state: 'cancelled' }],
    commands: [{ ...command, end: { state: 'cancelled', before: 4900, seenAt: 5000 } }],
    shownBackends: [],
  }
  const failed = { status: 'error', isSettled: true, errorCode: 'unavailable', because: null }
  it.each<[planted: string, rule: string, observed: Observation]>([
    [
      'an accepted operation is gone from one controller',
      'accepted operation missing',
      { ...well, finalNodes: well.finalNodes.filter((each) => each !== otherFinalNode) },
    ],
    ['an accepted operation has lost a node', 'accepted operation missing', { ...well, accepted: [{ ...submission, nodes: ['n', 'm'] }] }],
    [
      'a node of it is not settled in the end',
      'accepted operation missing',
      { ...well, shown: [], finalNodes: well.finalNodes.map((each) => (each === finalNode ? { ...finalNode, ...queued } : each)) },
    ],
    ['a repeated request made a second operation', 'operation nobody was told of', { ...well, operations: [...well.operations, 'op-9'] }],
    ['an intent is still open', 'intent not settled', { ...well, intents: [{ ...intent, state: 'working' }] }],
    [
      'an intent is dead, and its worker was up',
      'dead without a cause',
      { ...well, intents: [{ ...intent, state: 'dead', failure: 'no responders' }], failedTries: [{ ...about, generation: 1, at: 3000 }] },
    ],
    ['an intent has failed for good', 'dead without a cause', { ...well, intents: [{ ...intent, state: 'failed', failure: 'invalid' }] }],
    [
      'an older intent won',
      'last intent lost',
      {
        ...well,
        accepted: [submission, { ...later, kind: 'delete', digest: null }],
        operations: [...well.operations, 'op-2'],
        finalNodes: [...well.finalNodes, laterRow, { ...laterRow, controller: 1 }],
      },
    ],
    ['the intent asks for content that no client submitted', 'last intent lost', { ...well, accepted: [{ ...submission, digest: two }] }],
    ['an intent belongs to no submission', 'last intent lost', { ...well, owners: [] }],
    [
      'the disk has another version',
      'disk differs',
      { ...well, disk: [...well.disk, { ...about, digest: two, mark: 'i2', from: 20_100, to: 20_100 }] },
    ],
    [
      'the disk has nothing',
      'disk differs',
      { ...well, disk: [...well.disk, { ...about, digest: null, mark: '', from: 20_100, to: 20_100 }] },
    ],
    [
      'a deleted backend is there',
      'disk differs',
      { ...well, accepted: [{ ...submission, kind: 'delete', digest: null }], intents: [{ ...intent, kind: 'delete', digest: null }] },
    ],
    ['a journal has two successes of one generation', 'activated twice', { ...well, commands: [command, { ...command, id: 2 }] }],
    [
      'a record was written again',
      'activated twice',
      { ...well, disk: [...well.disk, { ...about, digest: one, mark: 'i2', from: 20_100, to: 20_100 }] },
    ],
    [
      'success became error',
      'settled status changed',
      { ...well, shown: [...well.shown, { ...shownSuccess, status: 'error', errorCode: 'internal', from: 6000, seenAt: 6010, to: 6000 }] },
    ],
    [
      'a failed status changed without a retry',
      'settled status changed',
      { ...well, shown: [{ ...place, ...failed, from: 700, seenAt: 750, to: 800 }, ...well.shown] },
    ],
    [
      'another controller still showed it open, seconds later',
      'settled status changed',
      { ...well, shown: [...well.shown, { ...place, ...queued, controller: 1, from: 7000, seenAt: 7010, to: 7000 }] },
    ],
    [
      'a controller forgot the end that it had shown',
      'settled status changed',
      { ...well, finalNodes: well.finalNodes.map((each) => (each === otherFinalNode ? { ...otherFinalNode, status: 'cancelled' } : each)) },
    ],
    [
      'success was shown before the worker had recorded it',
      'false success',
      { ...well, commands: [{ ...command, end: { state: 'succeeded', before: 8900, seenAt: 9000 } }] },
    ],
    [
      'success was shown, and the disk held something else',
      'false success',
      {
        ...well,
        disk: [
          { ...about, digest: two, mark: 'i1', from: 0, to: 10_000 },
          { ...about, digest: one, mark: 'i2', from: 10_100, to: 20_000 },
        ],
      },
    ],
    ['success was shown of what no worker knows', 'false success', { ...well, commands: [] }],
    [
      'it was shown as being worked on long before it was',
      'status contradicted',
      { ...well, commands: [{ ...command, before: 3900, seenAt: 4000 }] },
    ],
    [
      'it was shown as queued long after it was begun',
      'status contradicted',
      { ...well, shown: [{ ...place, ...queued, from: 1150, seenAt: 1160, to: 5050 }, ...well.shown.slice(2)] },
    ],
    [
      'it was shown as being worked on long after it was done',
      'status contradicted',
      {
        ...well,
        shown: [
          { ...place, ...downloading, from: 1350, seenAt: 1360, to: 7500 },
          { ...place, ...success, from: 7600, seenAt: 7610, to: 7600 },
        ],
      },
    ],
    [
      'a cancelled command was carried out afterwards',
      'cancelled and done',
      { ...cancelled, commands: [{ ...command, end: { state: 'succeeded', before: 8900, seenAt: 9000 } }] },
    ],
    [
      'a cancelled command was begun afterwards',
      'cancelled and done',
      { ...cancelled, commands: [{ ...command, before: 8900, seenAt: 9000, end: null }] },
    ],
    [
      'work that a cancelled operation had superseded was carried out afterwards',
      'cancelled and done',
      { ...cancelled, commands: [{ ...command, generation: 0, end: { state: 'succeeded', before: 8900, seenAt: 9000 } }] },
    ],
    [
      'a retry carried out again what had succeeded',
      'retried too much',
      {
        ...well,
        changes: [{ operation: 'op-1', kind: 'retry', sentAt: 6000, answeredAt: 6100 }],
        owners: [...well.owners, { generation: 2, operation: 'op-1', how: 'retried' }],
        commands: [command, { ...command, id: 2, generation: 2, before: 6200, seenAt: 6300 }],
      },
    ],
    [
      'an operation about a model has not ended',
      'accepted operation missing',
      {
        ...well,
        finalNodes: well.finalNodes.map((each) => (each.operation === 'op-m' ? { ...each, status: 'running', isSettled: false } : each)),
      },
    ],
    [
      'an operation about a model ended differently on one controller',
      'accepted operation missing',
      { ...well, finalNodes: well.finalNodes.map((each) => (each === loaded ? { ...loaded, status: 'failed' } : each)) },
    ],
    ['a model is gone', 'model lost', { ...well, finalModels: [finalModel] }],
    ['a deleted model is there', 'model lost', { ...well, models: [] }],
    ['a model does not come up', 'model lost', { ...well, finalModels: [finalModel, { ...finalModel, controller: 1, state: 'failed' }] }],
    ['a replica is missing', 'model lost', { ...well, finalModels: [finalModel, { ...finalModel, controller: 1, replicasReady: 0 }] }],
    [
      'a replica was shown as ready long after its process had died',
      'replica contradicted',
      { ...well, lives: [{ ...life, to: 9000, before: 9100 }], shownReplicas: [{ ...ready, to: 10_200 }] },
    ],
    [
      'a replica was shown as ready long before its process ran',
      'replica contradicted',
      { ...well, shownReplicas: [{ ...ready, from: 5700, seenAt: 5750 }] },
    ],
    ['a replica without a process was shown as ready', 'replica contradicted', { ...well, lives: [] }],
    [
      'a process ran that a controller did not show',
      'replica contradicted',
      { ...well, shownReplicas: [...well.shownReplicas, { ...ready, shown: 'absent', from: 8000, seenAt: 8050, to: 9100 }] },
    ],
    [
      'a process is left that a controller does not show in the end',
      'process left',
      { ...well, shownReplicas: [ready, { ...ready, controller: 1, shown: 'absent', from: 20_000, seenAt: 20_050, to: 20_000 }] },
    ],
    ['a process is left that no controller ever showed', 'process left', { ...well, shownReplicas: [] }],
    [
      'a backend was listed long before it was on disk',
      'backend contradicted',
      { ...well, shownBackends: [{ ...about, controller: 0, digest: one, from: 3000, seenAt: 3050, to: 20_000 }] },
    ],
    [
      'a backend was not listed long after it was on disk',
      'backend contradicted',
      { ...well, shownBackends: [{ ...about, controller: 0, digest: null, from: 0, seenAt: 50, to: 6000 }] },
    ],
  ])('sees that %s', (_, rule, observed) => expect(rulesBroken(observed)).toContain(rule))

  it.each<[excused: string, observed: Observation]>([
    [
      'an intent is dead, and its worker was down at every attempt',
      {
        ...well,
        intents: [{ ...intent, state: 'dead', failure: 'no responders' }],
        failedTries: [{ ...about, generation: 1, at: 3000 }],
        faults: [{ what: 'kill', name: 'n', from: 2900, to: 3100 }],
      },
    ],
    [
      'what is shown is late, and the worker was not connected',
      { ...well, clear: [], commands: [{ ...command, before: 3900, seenAt: 4000 }] },
    ],
    [
      'a record was written again after a deletion',
      {
        ...well,
        commands: [
          command,
          {
            ...command,
            id: 2,
            kind: 'delete',
            generation: 2,
            digest: null,
            seenAt: 10_000,
            end: { state: 'succeeded', before: 10_000, seenAt: 10_050 },
          },
          { ...command, id: 3, generation: 3, before: 10_000, seenAt: 10_050, end: { state: 'succeeded', before: 10_050, seenAt: 10_100 } },
        ],
        disk: [absent, { ...present, to: 10_000 }, { ...about, digest: one, mark: 'i2', from: 10_100, to: 20_000 }],
      },
    ],
    ['cancelled work was stopped', cancelled],
    [
      'a cancelled operation left work to another one that waits for it',
      {
        ...cancelled,
        accepted: [submission, later],
        operations: [...well.operations, 'op-2'],
        owners: [...well.owners, { generation: 1, operation: 'op-2', how: 'attached' }],
        finalNodes: [...cancelled.finalNodes, { ...laterRow }, { ...laterRow, controller: 1 }],
        intents: [intent],
        commands: [{ ...command, end: { state: 'succeeded', before: 8900, seenAt: 9000 } }],
        disk: [
          { ...absent, to: 8900 },
          { ...present, from: 9000 },
        ],
      },
    ],
    [
      'superseded work ended after that was shown',
      {
        ...cancelled,
        shown: [{ ...shownCancelled, because: 'superseded' }],
        commands: [{ ...command, end: { state: 'succeeded', before: 8900, seenAt: 9000 } }],
      },
    ],
    [
      'a node succeeded, and the rollout returned it to the version before',
      {
        ...well,
        accepted: [{ ...submission, kind: 'upgrade', digest: null }],
        owners: [...well.owners, { generation: 2, operation: 'op-1', how: 'returning' }],
        commands: [
          { ...command, kind: 'upgrade' },
          {
            ...command,
            kind: 'upgrade',
            id: 2,
            generation: 2,
            digest: two,
            before: 9000,
            seenAt: 9100,
            end: { state: 'succeeded', before: 9500, seenAt: 9600 },
          },
        ],
        disk: [absent, { ...present, to: 9500 }, { ...about, digest: two, mark: 'i2', from: 9600, to: 20_000 }],
        shownBackends: [],
        intents: [{ ...intent, kind: 'upgrade', generation: 2, digest: two }],
        finalNodes: well.finalNodes.map((each) =>
          each.operation === 'op-1' ? { ...each, status: 'error', errorCode: 'rolled_back', generation: 2 } : each,
        ),
      },
    ],
    [
      'a retry reopened what had failed',
      {
        ...well,
        changes: [{ operation: 'op-1', kind: 'retry', sentAt: 900, answeredAt: 950 }],
        shown: [{ ...place, ...failed, from: 700, seenAt: 750, to: 800 }, ...well.shown],
      },
    ],
    [
      'a replica was shown as ready after its process had died, and its worker was cut off',
      {
        ...well,
        lives: [{ ...life, to: 9000, before: 9100 }],
        shownReplicas: [{ ...ready, to: 12_000 }],
        faults: [{ what: 'cut', name: 'n', from: 9050, to: 11_000 }],
      },
    ],
    [
      'a replica was shown as unreachable after its process had died',
      {
        ...well,
        lives: [{ ...life, to: 9000, before: 9100 }],
        shownReplicas: [
          { ...ready, to: 9200 },
          { ...ready, shown: 'away', from: 9500, seenAt: 9550, to: 20_000 },
        ],
      },
    ],
  ])('says nothing when %s', (_, observed) => expect(check(observed)).toEqual([]))
})

describe('content that came and went between two looks at the disk', () => {
  const replaced = (lastLook: number, nextLook: number): Observation => ({
    ...well,
    disk: [
      { ...absent, to: lastLook },
      { ...about, digest: two, mark: 'i2', from: nextLook, to: 20_000 },
    ],
  })
  it('is no false success', () => expect(rulesBroken(replaced(4900, 5250))).not.toContain('false success'))
  it('is a false success when the disk was seen unchanged meanwhile', () => {
    expect(rulesBroken(replaced(5200, 5250))).toContain('false success')
    expect(rulesBroken(replaced(4600, 4850))).toContain('false success')
  })
})

it('the same seed draws the same', () => {
  const draw = (seed: number): number[] =>
    Array.from(
      { length: 20 },
      (
        (random) => () =>
          random.below(1000)
      )(createRandom(seed).fork()),
    )
  expect(draw(7)).toEqual(draw(7))
  expect(draw(7)).not.toEqual(draw(8))
})
