// Errors of the API: their bodies, and the conversion of every thrown error into one.
import { BusError } from '@muster/bus'
import { closestWord } from '@muster/host'
import { FleetError, type FailureCode, type ModelName, type NodeId } from '@muster/protocol'
import { SourceForbidden } from '@muster/source'
import { z } from 'zod'
import { SourceUnavailable } from '../gallery/resolve-source.ts'
import { Refused, type RefusalCode } from '../operations/submit.ts'
import { isUnavailable, toFleetError } from '../store/errors.ts'

export class HttpError extends Error {
  readonly status: number
  readonly code: string
  readonly details: Record<string, unknown> | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    code: string,
    message: string,
    more?: { details?: Record<string, unknown>; headers?: Record<string, string>; cause?: unknown },
  ) {
    super(message, more?.cause === undefined ? undefined : { cause: more.cause })
    this.name = 'HttpError'
    this.status = status
    this.code = code
    this.details = more?.details
    this.headers = more?.headers ?? {}
  }
}

const statusOf: Readonly<Record<FailureCode, number>> = {
  invalid: 400,
  not_found: 404,
  conflict: 409,
  superseded: 409,
  incompatible: 409,
  unavailable: 503,
  timeout: 503,
  no_capacity: 503,
  disk_full: 503,
  integrity: 500,
  cancelled: 409,
  internal: 500,
}

const refusalStatus: Readonly<Record<RefusalCode, number>> = {
  not_found: 404,
  not_installed: 404,
  not_eligible: 409,
  no_eligible_nodes: 409,
  in_use: 409,
  at_maximum: 409,
  only_copy: 409,
}

/** Every 503 carries Retry-After. */
const retryAfter = { 'retry-after': '2' }

export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof SourceForbidden) return new HttpError(403, 'source_forbidden', error.message, { cause: error })
  if (error instanceof SourceUnavailable) {
    const seconds = Math.ceil((error.retryAfterMs ?? 10_000) / 1000)
    return new HttpError(503, 'source_unavailable', error.message, { headers: { 'retry-after': String(seconds) }, cause: error })
  }
  if (error instanceof Refused) return new HttpError(refusalStatus[error.code], error.code, error.message)
  if (error instanceof FleetError) {
    const status = statusOf[error.failure.code]
    return new HttpError(status, error.failure.code, error.failure.message, { headers: status === 503 ? retryAfter : {}, cause: error })
  }
  if (isUnavailable(error)) {
    return new HttpError(503, 'database_unavailable', toFleetError(error).failure.message, { headers: retryAfter, cause: error })
  }
  if (error instanceof BusError) return new HttpError(503, 'bus_unavailable', error.message, { headers: retryAfter, cause: error })
  return new HttpError(500, 'internal', 'internal error; the controller log has the cause under this request ID', {
    cause: error,
  })
}

/**
 * For input of the caller only: a ZodError from anywhere else is a bug. An unknown field comes first: the other issues are often its
 * consequences.
 */
export function invalidInput(error: z.ZodError, schema: z.ZodType): HttpError {
  const issues = error.issues.slice(0, 20).map((issue) => ({ path: issue.path.join('.'), message: messageOf(issue) }))
  const unknown = error.issues.find((issue) => issue.code === 'unrecognized_keys')
  if (unknown !== undefined) {
    const [field = ''] = unknown.keys
    const param = [...unknown.path, field].join('.')
    const closest = closestWord(field, fieldsAt(schema, unknown.path))
    const hint = closest === null ? 'this request takes no fields' : `the closest known field is ${closest}`
    return new HttpError(400, 'invalid', `unknown field ${JSON.stringify(param)}; ${hint}`, { details: { param, issues } })
  }
  const first = issues[0]
  const where = first === undefined || first.path === '' ? '' : `${first.path}: `
  return new HttpError(400, 'invalid', `${where}${first?.message ?? 'the request is not valid'}`, {
    details: { ...(where === '' ? {} : { param: first?.path }), issues },
  })
}

function fieldsAt(schema: unknown, [first, ...rest]: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault)
    return fieldsAt(schema.unwrap(), first === undefined ? [] : [first, ...rest])
  if (!(schema instanceof z.ZodObject)) return []
  return first === undefined ? Object.keys(schema.shape) : fieldsAt(schema.shape[String(first)], rest)
}

/** The issue inside an invalid key is more specific than the issue about it. */
const messageOf = (issue: z.core.$ZodIssue): string =>
  issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message

export const starting = (): HttpError =>
  new HttpError(503, 'starting', 'this controller is starting and waits for its database', { headers: { 'retry-after': '1' } })

export const notFound = (message: string): HttpError => new HttpError(404, 'not_found', message)
export const nodeNotFound = (id: NodeId): HttpError => notFound(`node ${id} does not exist; GET /api/nodes lists all nodes`)
export const modelNotFound = (name: ModelName): HttpError => notFound(`model ${name} does not exist; GET /api/models lists all models`)

/** LocalAI's envelope: the code is the status. */
export const localAiErrorBody = ({ status, message }: HttpError): object => ({ error: { code: status, message, type: '' } })

/** OpenAI's envelope below /v1, Muster's elsewhere. */
export function errorBody(path: string, error: HttpError): object {
  if (path.startsWith('/v1/') || path === '/v1') {
    const type = error.status < 500 ? 'invalid_request_error' : 'server_error'
    return { error: { message: error.message, type, param: null, code: error.code } }
  }
  return { error: { code: error.code, message: error.message, ...(error.details === undefined ? {} : { details: error.details }) } }
}
