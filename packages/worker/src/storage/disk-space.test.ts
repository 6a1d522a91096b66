import { type Failure, FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { fetchFailureOf, storageFailureOf } from './disk-space.ts'

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
