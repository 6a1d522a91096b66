import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LoadModel, ReplicaId } from '@muster/protocol'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { openReplicaRecords, type ReplicaRecord } from './replica.ts'

const record = (id: string, notedAt: number): ReplicaRecord => ({
  format: 1,
  node: null,
  order: LoadModel.parse({ model: 'org/m:8b', revision: '1', replica_id: id, backend: 'b', config: { a: 1 }, files: [], slot: 3 }),
  isBare: false,
  opIds: [],
  notedAt,
  digest: null,
  listed: null,
  stage: { state: 'accepted' },
})

it('keeps records in the order of acceptance, and skips newer and damaged files', async () => {
  await using directory = await makeTempDir('records')
  const log = recordingLog()
  const first = await openReplicaRecords({ directory: directory.path, log })
  await Promise.all([record('r-2', 2), record('r-1', 1), record('r-3', 3)].map(first.records.write))
  await first.records.remove(ReplicaId.parse('r-3'))
  await writeFile(join(directory.path, 'r-4.json'), JSON.stringify({ format: 2, anything: 'else' }))
  await writeFile(join(directory.path, 'r-5.json'), '{"format":1,')
  await writeFile(join(directory.path, 'r-6.json'), JSON.stringify(record('r-7', 1)))
  const again = await openReplicaRecords({ directory: directory.path, log })
  expect(again.found).toEqual([record('r-1', 1), record('r-2', 2)])
  expect(again.newer).toEqual(['r-4'])
  expect((await readdir(directory.path)).toSorted()).toEqual(['r-1.json', 'r-2.json', 'r-4.json'])
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(3)
})
