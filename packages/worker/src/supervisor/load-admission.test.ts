import { LoadModel, ReplicaId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { decideLoad, type Stage, type WorkerState } from './replica.pure.ts'

const order = (more: object = {}): LoadModel =>
  LoadModel.parse({ model: 'm', revision: '1', replica_id: 'r-1', backend: 'b', config: {}, files: [], slot: 0, ...more })
const run = {
  process: { pid: 1, started: '', boot: '' },
  address: { kind: 'unix', path: '/s' },
  digest: `sha256:${'0'.repeat(64)}`,
  modelDirectory: '',
}
const other = (state: Stage['state'], more: object = {}): WorkerState['others'][number] => ({
  order: order({ replica_id: 'r-0', ...more }),
  stage: { state, run, end: state === 'gone' ? { how: 'staged' } : null } as unknown as Stage,
})
const having = (...others: WorkerState['others'][number][]): WorkerState => ({ others, isStopping: false, newer: [] })
const conflict = { do: 'refuse', failure: { code: 'conflict' } }

describe('the admission of a load', () => {
  it.each([
    ['nothing is here', having(), { do: 'accept' }],
    ['S1.15 the same replica is loading', having(other('staging', { replica_id: 'r-1' })), { do: 'join' }],
    ['the same replica is ready', having(other('ready', { replica_id: 'r-1' })), { do: 'join' }],
    ['the same replica has ended: its id is not used again', having(other('gone', { replica_id: 'r-1' })), { do: 'join' }],
    ['its id is another model here', having(other('ready', { replica_id: 'r-1', model: 'x' })), conflict],
    ['its id is another slot here', having(other('ready', { replica_id: 'r-1', slot: 1 })), conflict],
    ['I11 another replica has the slot', having(other('ready')), conflict],
    ['I11 another replica is started up in the slot', having(other('accepted')), conflict],
    ['the one in the slot is on its way out', having(other('stopping')), { do: 'accept' }],
    ['the one in the slot takes nothing new', having(other('draining')), { do: 'accept' }],
    ['the one in the slot is gone', having(other('gone')), { do: 'accept' }],
    ['S1.16 another slot of the model is taken', having(other('ready', { slot: 1 })), { do: 'accept' }],
    ['S1.16 the same slot of another model is taken', having(other('ready', { model: 'x' })), { do: 'accept' }],
    ['files are only staged for that slot', having(other('staging', { stage_only: true })), { do: 'accept' }],
    ['this worker stops', { ...having(), isStopping: true }, { do: 'refuse', failure: { code: 'unavailable', retry: 'backoff' } }],
    [
      'a newer version left replicas here',
      { ...having(), newer: [ReplicaId.parse('r-9')] },
      { do: 'refuse', failure: { code: 'incompatible', retry: 'backoff' } },
    ],
  ])('%s', (_, world, want) => {
    expect(decideLoad(order(), world)).toMatchObject(want)
  })

  it('without a slot there is no conflict', () => {
    expect(decideLoad(order({ slot: undefined }), having(other('ready', { slot: undefined })))).toEqual({ do: 'accept' })
  })
})
