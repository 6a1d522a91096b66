import { expect, it } from 'vitest'
import type { LoadFailure, Loading } from '@muster/protocol'
import { type NamedOutcome, outcomeOf } from './outcome.pure.ts'

const loading: Loading = { model: 'm', state: 'loading', node: null, progress: 0, current_bytes: 0, total_bytes: 0 }
const failure: LoadFailure = { code: 'integrity', message: '', at: '', next_retry_at: null, attempts: 1 }
const answered = (status: number, hasErrorEvent = false) => ({ kind: 'answered' as const, status, hasErrorEvent })

it.each<[string, Parameters<typeof outcomeOf>[0], NamedOutcome['outcome'], string]>([
  ['an answer', answered(200), 'ok', ''],
  ['a stream that ends with an error', answered(200, true), 'error', 'error_event'],
  ['a request that the backend refuses', answered(400), 'client_error', '400'],
  ['a model that the backend does not know', answered(404), 'client_error', '404'],
  ['a backend that has too much to do', answered(429), 'overloaded', '429'],
  ['a backend that takes no requests now', answered(503), 'overloaded', '503'],
  ['a backend that fails', answered(500), 'error', '500'],
  ['a request that the backend does not support', answered(501), 'error', '501'],
  ['an answer that broke off', { kind: 'cut', why: '' }, 'error', 'cut'],
  ['no answer', { kind: 'unanswered', why: '', hasBegun: true }, 'error', 'unanswered'],
  ['a client that left', { kind: 'gone', hasData: true }, 'client_error', 'client_gone'],
  ['an unknown model', { kind: 'none', refusal: { kind: 'model_not_found' } }, 'client_error', 'model_not_found'],
  ['a model that still loads', { kind: 'none', refusal: { kind: 'loading', loading } }, 'overloaded', 'loading'],
  ['a model that fits nowhere', { kind: 'none', refusal: { kind: 'no_capacity', message: '' } }, 'overloaded', 'no_capacity'],
  ['a model that cannot be loaded', { kind: 'none', refusal: { kind: 'failed', failure } }, 'error', 'failed'],
  ['replicas without an answer', { kind: 'none', refusal: { kind: 'unreachable' } }, 'error', 'unreachable'],
  ['a database without an answer', { kind: 'none', refusal: { kind: 'unknown', error: null } }, 'error', 'unknown'],
])('the outcome of %s', (_, end, outcome, reason) => {
  expect(outcomeOf(end)).toEqual({ outcome, reason })
})
