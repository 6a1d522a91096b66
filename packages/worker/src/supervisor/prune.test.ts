import { LoadModel } from '@muster/protocol'
import { expect, it } from 'vitest'
import { findPrunable, type Stage } from './replica.pure.ts'
import type { ReplicaRecord } from './replica.ts'

const record = (id: string, model: string, stage: Stage = { state: 'gone', end: { how: 'staged' } }): ReplicaRecord => ({
  format: 1,
  node: null,
  order: LoadModel.parse({ model, revision: '1', replica_id: id, backend: 'b', config: {}, files: [] }),
  isBare: false,
  opIds: [],
  notedAt: 0,
  digest: null,
  listed: null,
  stage,
})

it('prunes old ended replicas, but never the newest of a model or a live one', () => {
  const [rare, living] = [record('rare', 'rare'), record('living', 'm', { state: 'accepted' })]
  const many = Array.from({ length: 100 }, (_, n) => record(`r-${n}`, 'm'))
  expect(findPrunable([rare, living, ...many]).map(({ order }) => order.replica_id)).toEqual(Array.from({ length: 36 }, (_, n) => `r-${n}`))
})
