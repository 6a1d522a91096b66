// Encodes values as JSON text and decodes them, by the schemas of the definitions.
import { errorMessage } from '@muster/host'
import { Failure, FleetError, formatSubject, parseSubject } from '@muster/protocol'
import type { Command, Params, ParamSchemas, ParamsOrAny, Topic } from '@muster/protocol'
import type { z } from 'zod'
import { BusError } from './bus.ts'
import type { Packet } from './wire.ts'

/** The default of nats-server (`max_payload`). Larger things travel over HTTP. */
export const maxPayloadBytes = 1_048_576

export type DecodeResult<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string }

/** Removes fields that are not in the schema. */
export function encode(schema: z.ZodType, value: unknown, subject: string): string {
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw new BusError('invalid', `cannot send to ${subject}: ${explain(parsed.error)}`)
  const text = toJson(parsed.data, subject)
  // A UTF-16 unit is at most 3 bytes of UTF-8: most texts need no counting.
  if (text.length * 3 > maxPayloadBytes && Buffer.byteLength(text) > maxPayloadBytes) {
    throw new BusError('too_large', `cannot send to ${subject}: ${Buffer.byteLength(text)} bytes; the limit is ${maxPayloadBytes}`)
  }
  return text
}

export function decode<S extends z.ZodType>(schema: S, text: string | null): DecodeResult<z.output<S>> {
  const json = parseJson(text)
  if (!json.ok) return json
  const parsed = schema.safeParse(json.value)
  return parsed.success ? { ok: true, value: parsed.data } : { ok: false, reason: explain(parsed.error) }
}

/** Holds the failure in three forms, for callers that read only `{success,error}` or `{accepted,failure}`. */
export function encodeFailure(failure: Failure): string {
  const message = failure.message.slice(0, 8192)
  return JSON.stringify({ accepted: false, success: false, error: message, failure: { ...failure, message } })
}

/** The reply in an answer; throws BusError, or FleetError with the failure of the handler. */
export function decodeAnswer<R extends z.ZodType>(reply: R, subject: string, answer: Packet): z.output<R> {
  switch (answer.kind) {
    case 'no_responders':
      throw new BusError('no_responders', `no responder for ${subject}`)
    case 'failure': {
      const json = parseJson(answer.text)
      const failure = Failure.safeParse(json.ok && isRecord(json.value) ? json.value['failure'] : undefined)
      if (failure.success) throw new FleetError(failure.data)
      throw new BusError('invalid', `${subject} failed with an unreadable failure: ${explain(failure.error)}`)
    }
    case 'message': {
      const decoded = decode(reply, answer.text)
      if (decoded.ok) return decoded.value
      throw new BusError('invalid', `malformed reply from ${subject}: ${decoded.reason}`)
    }
  }
}

/** One subject, without wildcards. */
export function exactSubject<P extends ParamSchemas>(definition: Command<P> | Topic<P>, to: Params<P>): string {
  const subject = anySubject(definition, to)
  if (subject.includes('*')) throw new BusError('invalid', `${subject} does not name a single receiver`)
  return subject
}

export function anySubject<P extends ParamSchemas>(definition: Command<P> | Topic<P>, to: ParamsOrAny<P>): string {
  try {
    return formatSubject(definition, to)
  } catch (error) {
    throw new BusError('invalid', errorMessage(error), { cause: error })
  }
}

/** Reads the parameters of received subjects; without wildcards they are known already. */
export function paramsReader<P extends ParamSchemas>(
  definition: Command<P> | Topic<P>,
  to: ParamsOrAny<P>,
): (subject: string) => Params<P> | null {
  const isAny = Object.values(to).includes('*')
  if (isAny) return (subject) => parseSubject(definition, subject)
  const known = to as Params<P>
  return () => known
}

function toJson(value: unknown, subject: string): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw new BusError('invalid', `cannot send to ${subject}: the value is not JSON`, { cause: error })
  }
}

/** An empty body and `null` mean an empty object: LocalAI sends commands without arguments this way. */
function parseJson(text: string | null): DecodeResult<unknown> {
  if (text === null) return { ok: false, reason: 'not UTF-8' }
  if (text === '') return { ok: true, value: {} }
  try {
    const value: unknown = JSON.parse(text)
    return { ok: true, value: value ?? {} }
  } catch {
    return { ok: false, reason: 'not JSON' }
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function explain(error: z.ZodError): string {
  const issues = error.issues.slice(0, 3).map((issue) => `${issue.path.join('.') || 'the body'}: ${issue.message}`)
  return issues.join('; ').slice(0, 1000)
}
