// Responses to clients of the OpenAI API when no backend answered.
import { unreachable, type Loading, type LoadFailure } from '@muster/protocol'
import type { Refusal } from '../inference/serve.ts'
import { errorBody, toHttpError, type HttpError } from './http-error.ts'

export interface InferenceAnswer {
  readonly status: number
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
}

const retryAfter = (seconds: number): Record<string, string> => ({ 'retry-after': String(Math.min(Math.max(Math.ceil(seconds), 1), 300)) })

/** `type` and `code` are equal, because clients of the OpenAI API read either. */
const unavailable = (type: string, message: string, { seconds, more }: { seconds: number; more?: object }): InferenceAnswer => ({
  status: 503,
  body: { error: { message, type, param: null, code: type }, ...more },
  headers: retryAfter(seconds),
})

export function answerOf(refusal: Refusal, { model, now }: { model: string; now: number }): InferenceAnswer {
  switch (refusal.kind) {
    case 'model_not_found':
      return unknownModel(model)
    case 'loading':
      return unavailable('model_loading', loadingMessage(refusal.loading), {
        seconds: refusal.loading.eta_seconds ?? 5,
        more: { loading: refusal.loading },
      })
    case 'failed':
      return unavailable('model_load_failed', failedMessage(model, refusal.failure), { seconds: secondsToRetry(refusal.failure, now) })
    case 'no_capacity':
      return unavailable('no_capacity', refusal.message, { seconds: 10 })
    case 'unreachable':
      return unavailable('model_unreachable', `no replica of model ${model} answers at the moment; try again`, { seconds: 2 })
    case 'unanswered':
      return unanswered(refusal, model)
    case 'unknown':
      return answerOfError(toHttpError(refusal.error))
    default:
      return unreachable(refusal)
  }
}

export const answerOfError = (error: HttpError): InferenceAnswer => ({
  status: error.status,
  body: errorBody('/v1', error),
  headers: error.headers,
})

export function unknownModel(model: string): InferenceAnswer {
  const name = model.length > 200 ? `${model.slice(0, 200)}…` : model
  const message = `model ${JSON.stringify(name)} does not exist; GET /v1/models lists all models`
  return { status: 404, body: { error: { message, type: 'invalid_request_error', param: 'model', code: 'model_not_found' } }, headers: {} }
}

export function disabledModel(model: string): InferenceAnswer {
  const message = `model ${model} is disabled; an administrator can enable it by its scheduling`
  return { status: 403, body: { error: { message, type: 'invalid_request_error', param: 'model', code: 'model_disabled' } }, headers: {} }
}

export function invalidField(param: string, message: string): InferenceAnswer {
  return { status: 400, body: { error: { message, type: 'invalid_request_error', param, code: 'invalid' } }, headers: {} }
}

/** The last event of a stream that the backend broke off. */
export function errorEvent(message: string): string {
  const error = {
    message: `the backend broke off in the middle of its answer: ${message}`,
    type: 'server_error',
    param: null,
    code: 'backend_cut',
  }
  return `data: ${JSON.stringify({ error })}\n\n`
}

function loadingMessage({ model, node, progress, eta_seconds: eta }: Loading): string {
  const left = eta === undefined ? '' : `, ~${Math.ceil(eta)} s left`
  return `model ${model} is loading${node === null ? '' : ` on node ${node}`} (${Math.floor(progress)}%${left})`
}

function failedMessage(model: string, { message, next_retry_at: next }: LoadFailure): string {
  const whatNow = next === null ? 'no automatic retry: fix the cause and load the model again' : 'it is retried automatically'
  return `model ${model} could not be loaded: ${message} (${whatNow})`
}

const secondsToRetry = ({ next_retry_at: next }: LoadFailure, now: number): number =>
  next === null ? 300 : (Date.parse(next) - now) / 1000

function unanswered({ why, hasBegun }: Extract<Refusal, { kind: 'unanswered' }>, model: string): InferenceAnswer {
  const message = `no replica of model ${model} answered (${why}); try again`
  const answer = unavailable('model_unreachable', message, { seconds: 1 })
  return hasBegun ? { ...answer, status: 502 } : answer
}
