import { FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { toHttpError } from './http-error.ts'

const thrownBy = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

it('treats a stored row that violates its schema as a bug, not as bad input', () => {
  const error = thrownBy(() => z.object({ id: z.string() }).parse({ id: 5 }))
  expect(toHttpError(error)).toMatchObject({ status: 500, code: 'internal', cause: error })
})

it('answers 503 database_unavailable when the database is away', () => {
  const error = Object.assign(new Error('terminating connection'), { code: '57P01' })
  expect(toHttpError(error)).toMatchObject({ status: 503, code: 'database_unavailable', headers: { 'retry-after': '2' } })
})

it('keeps the code and message of other unavailable services', () => {
  const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const error = new FleetError({ code: 'unavailable', retry: 'backoff', message: 'node n-1 does not answer' }, { cause })
  expect(toHttpError(error)).toMatchObject({
    status: 503,
    code: 'unavailable',
    message: 'node n-1 does not answer',
    headers: { 'retry-after': '2' },
  })
})
