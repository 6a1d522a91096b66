// One HTTP request to a gRPC backend, with what every answer needs.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import type { Clock } from '@muster/host'
import type { ReplicaSpec } from '../driver.ts'
import type { BackendClient } from './client.ts'
import type { Refusal } from './failures.ts'
import { openAiError } from './to-openai.ts'

export type Exchange = Readonly<{
  spec: ReplicaSpec
  client: BackendClient
  clock: Clock
  request: IncomingMessage
  response: ServerResponse
  headers: Readonly<Record<string, string>>
}>

/** What a message of gRPC can hold. */
const largestBody = 50 * 1024 * 1024

export function answer({ response, headers }: Exchange, status: number, body: object): void {
  if (response.destroyed) return
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers })
  response.end(text)
}

export const refuse = (exchange: Exchange, { status, message, param }: Refusal): void =>
  answer(exchange, status, openAiError(status, message, param ?? null))

/** Null: it was refused, or nobody is left to be told. */
export async function readBody<S extends z.ZodType>(exchange: Exchange, schema: S): Promise<z.output<S> | null> {
  const bytes = await readAll(exchange.request)
  if (bytes === 'gone') return null
  if (bytes === 'too_large') {
    refuse(exchange, { status: 413, message: `a request to this backend has at most ${largestBody} bytes` })
    return null
  }
  const parsed = schema.safeParse(parse(bytes))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const param = issue?.path.join('.') ?? ''
  refuse(exchange, { status: 400, message: issue === undefined ? 'the body is not valid' : `${param}: ${issue.message}`, param })
  return null
}

async function readAll(request: IncomingMessage): Promise<Buffer | 'too_large' | 'gone'> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request) {
      if (!Buffer.isBuffer(chunk)) continue
      length += chunk.length
      if (length <= largestBody) chunks.push(chunk)
    }
  } catch {
    return 'gone'
  }
  return length > largestBody ? 'too_large' : Buffer.concat(chunks)
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

/** Aborted when the caller goes away: work for nobody is ended. */
export function callerGone({ response }: Exchange): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  response.once('close', () => gone.abort())
  return gone.signal
}
