import { tmpdir } from 'node:os'
import { type Failure, FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { createSpaceCheck, fetchFailureOf, freeBytes, storageFailureOf } from './disk-space.ts'

const errno = (code: string): Error => Object.assign(new Error(code), { code })
const fleet = (code: Failure['code']): FleetError => new FleetError({ code, retry: 'backoff', message: 'it failed' })

it.each<[string, unknown, Partial<Failure>]>([
  ['a server that does not answer is the source', fleet('unavailable'), { code: 'unavailable', source: 'files' }],
  ['content that does not exist is the source', fleet('not_found'), { code: 'not_found', source: 'files' }],
  ['wrong content is the source', fleet('integrity'), { code: 'integrity', source: 'files' }],
  ['too little space is the node', fleet('disk_full'), { code: 'disk_full' }],
  ['a full disk is the node', storageFailureOf(errno('ENOSPC')), { code: 'disk_full' }],
  ['a data directory that cannot be used is the node', storageFailureOf(errno('EROFS')), { code: 'unavailable' }],
  ['a bug is the node', new Error('oops'), { code: 'internal' }],
])('%s', (_, error, { source, ...want }) => {
  const failure = fetchFailureOf(error, 'files')
  expect(failure).toMatchObject(want)
  expect(failure.source).toBe(source)
})

const exabyte = 2 ** 60

it.each<[string, { keepFreeBytes: number; isWarning: boolean; bytes: number }, 'passes' | 'warns' | 'refuses']>([
  ['a download that fits', { keepFreeBytes: 0, isWarning: false, bytes: 1 }, 'passes'],
  ['a download that does not fit', { keepFreeBytes: 0, isWarning: false, bytes: exabyte }, 'refuses'],
  ['a download that does not fit, with a warning only', { keepFreeBytes: 0, isWarning: true, bytes: exabyte }, 'warns'],
  ['a disk that is full to its limit, also with a warning only', { keepFreeBytes: exabyte, isWarning: true, bytes: 1 }, 'refuses'],
])('%s', async (_, { keepFreeBytes, isWarning, bytes }, want) => {
  const log = recordingLog()
  const check = createSpaceCheck(tmpdir(), { keepFreeBytes, isWarning: () => isWarning, log })
  const outcome = await check(bytes).then(
    () => 'begins',
    (error: unknown) => (error instanceof FleetError ? error.failure.code : error),
  )
  expect(outcome).toBe(want === 'refuses' ? 'disk_full' : 'begins')
  expect(JSON.stringify(log.lines).includes('disk that looks too small')).toBe(want === 'warns')
  expect(await freeBytes(tmpdir())).toBeLessThan(exabyte)
})
