// Serves the content of model files to other workers, by digest, and receives uploads from controllers.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Digest, type FailureCode, failureOf, gatewayPaths, gatewayScope, ModelName } from '@muster/protocol'
import type { ModelFiles } from '../models/model-files.ts'
import type { Authorize } from './authorize.ts'
import { notFound, refuse, respond, watchBody } from './respond.ts'

export type FileDeps = Readonly<{ files: Pick<ModelFiles, 'open' | 'size' | 'receive'>; authorize: Authorize }>

export async function serveFiles(deps: FileDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://gateway')
  if (request.method === 'PUT' && pathname === gatewayPaths.upload) return await receive(deps, { request, response, about: searchParams })
  const digest = Digest.safeParse(pathname.slice(gatewayPaths.upload.length + 1))
  if (!digest.success || (request.method !== 'GET' && request.method !== 'HEAD')) return notFound(response, pathname)
  if (deps.authorize(request, response, gatewayScope.file(digest.data)) !== null) await give(deps, request, response, digest.data)
}

async function give({ files }: FileDeps, request: IncomingMessage, response: ServerResponse, digest: Digest): Promise<void> {
  const size = await files.size(digest)
  if (size === null) return refuse(response, 404, 'not_found', `${digest} is not on this node`)
  const headers = { 'accept-ranges': 'bytes', 'content-type': 'application/octet-stream', etag: `"${digest}"` }
  const range = readRange(request.headers.range, size)
  if (range === 'unsatisfiable') {
    response.writeHead(416, { ...headers, 'content-range': `bytes */${size}`, 'content-length': 0 }).end()
    return
  }
  const length = range === null ? size : range.end - range.start + 1
  const part = range === null ? {} : { 'content-range': `bytes ${range.start}-${range.end}/${size}` }
  const head = (): ServerResponse => response.writeHead(range === null ? 200 : 206, { ...headers, ...part, 'content-length': length })
  if (request.method === 'HEAD') {
    head().end()
    return
  }
  const opened = await files.open(digest, range)
  if (opened === null) return refuse(response, 404, 'not_found', `${digest} is not on this node any more`)
  head()
  // A reader recognizes a cut response by its length.
  await pipeline(opened.stream, response).catch(() => response.destroy())
}

type Upload = Readonly<{ request: IncomingMessage; response: ServerResponse; about: URLSearchParams }>

async function receive({ files, authorize }: FileDeps, { request, response, about }: Upload): Promise<void> {
  if (authorize(request, response, gatewayScope.upload) === null) return
  const [named, forModel] = [about.get('digest'), about.get('model')]
  const digest = named === null ? null : Digest.safeParse(named)
  const model = forModel === null ? null : ModelName.safeParse(forModel)
  if (model?.success === false) return refuse(response, 400, 'invalid', 'invalid model name')
  if (digest?.success === false) return refuse(response, 400, 'invalid', 'invalid digest; expected sha256: and 64 hex digits')
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const length = request.headers['content-length']
  try {
    watchBody(response)
    if (request.headers.expect !== undefined) response.writeContinue()
    const kept = await files.receive(request, {
      ...(digest === null ? {} : { digest: digest.data }),
      ...(model === null ? {} : { model: model.data }),
      ...(length === undefined ? {} : { size: Number(length) }),
      signal: gone.signal,
    })
    respond(response, 200, kept)
  } catch (error) {
    const failure = failureOf(error)
    if (!response.destroyed && !response.headersSent) refuse(response, statusOf(failure.code), failure.code, failure.message)
  }
}

function statusOf(code: FailureCode): number {
  switch (code) {
    case 'invalid':
    case 'integrity':
      return 400
    case 'disk_full':
    case 'no_capacity':
      return 507
    case 'unavailable':
    case 'cancelled':
      return 503
    default:
      return 500
  }
}

type ByteRange = Readonly<{ start: number; /** Inclusive. */ end: number }>

/** The range in a `Range` header. Null: the whole file, also for several ranges, as HTTP allows. */
export function readRange(header: string | undefined, size: number): ByteRange | null | 'unsatisfiable' {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return null
  if (first === '') return suffix(Number(last), size)
  const [start, end] = [Number(first), last === '' ? size - 1 : Math.min(Number(last), size - 1)]
  if (last !== '' && Number(last) < start) return null
  return start < size ? { start, end } : 'unsatisfiable'
}

function suffix(length: number, size: number): ByteRange | 'unsatisfiable' {
  return length === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - length), end: size - 1 }
}
