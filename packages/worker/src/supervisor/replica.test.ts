import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Digest, LoadModel, ReplicaId } from '@muster/protocol'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { recordingLog } from '../../test/recording-log.ts'
import { createManualClock } from '../../test/manual-clock.ts'
import { createProgressReporter } from '../work/reports.ts'
import { admit, createReplica, openReplicaRecords, type ReplicaRecord, untilIdle } from './replica.ts'

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

it('a drain waits for the last request, not for the last but one', async () => {
  const clock = createManualClock()
  const run = {
    process: { pid: 1, started: '1', boot: 'b' },
    address: { kind: 'tcp' as const, host: '127.0.0.1' as const, port: 1 },
    digest: Digest.parse(`sha256:${'0'.repeat(64)}`),
    modelDirectory: '/',
  }
  const reporter = createProgressReporter({ publish: () => undefined, nextSeq: () => 1, clock })
  const replica = createReplica({ ...record('r-1', 1), stage: { state: 'ready', run } }, reporter)
  replica.connection = { handle: async () => undefined, close: async () => undefined }
  replica.process = { identity: run.process, exited: new Promise(() => undefined), hasExited: () => false }
  const requests = [admit(replica), admit(replica)].filter((each) => typeof each === 'object')
  expect(requests).toHaveLength(2)
  let isIdle = false
  const idle = untilIdle(replica, 60_000, { clock }).then(() => (isIdle = true))
  requests[0]?.[Symbol.dispose]()
  await nextTurn()
  expect(isIdle).toBe(false)
  // A drain that begins with one request left waits for it too.
  let isLateIdle = false
  const late = untilIdle(replica, 60_000, { clock }).then(() => (isLateIdle = true))
  await nextTurn()
  expect(isLateIdle).toBe(false)
  requests[1]?.[Symbol.dispose]()
  await Promise.all([idle, late])
})
