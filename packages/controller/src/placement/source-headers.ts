// Reads the headers of GGUF files that no worker has fetched yet, from their sources: a few megabytes, through the guard of
// outbound requests, within seconds. Placement then books the right amount before the first load. A source that fails is left
// alone for a while; the files are booked by their sizes, or not at all, until a worker has them.
import type { Readable } from 'node:stream'
import { type Clock, inLanes, type Log, withDeadline } from '@muster/host'
import type { Digest, GgufFacts, ModelConfig } from '@muster/protocol'
import { locateFile, maxHeaderBytes, type Outbound, parseContentRange, parseModelUri, readGgufFacts } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { FileContentStore, RemoteFile } from '../store/file-contents.ts'
import { contentOf } from './file-lookup.ts'

export interface SourceHeadersDeps {
  readonly outbound: Pick<Outbound, 'request'>
  readonly builtin: Promise<Pick<BuiltinBlobs, 'open' | 'size'>>
  readonly contents: Pick<FileContentStore, 'recordRemote'>
  readonly clock: Clock
  readonly log: Log
}
type ConfiguredFile = ModelConfig['files'][number]
/** Returns what was found, and stores it for all controllers. */
export type ReadHeaders = (model: ModelConfig['name'], files: readonly ConfiguredFile[]) => Promise<readonly RemoteFile[]>

const deadlineMs = 3_000
const maxBytes = Math.min(16 * 2 ** 20, maxHeaderBytes)
const firstBytes = 256 * 1_024
const maxFiles = 8
const atOnce = 4
const failedForMs = 600_000
const maxRemembered = 1_000

export function createSourceHeaders(deps: SourceHeadersDeps): ReadHeaders {
  const { contents, clock, log } = deps
  const failedAt = new Map<string, number>()
  const isFailing = (uri: string): boolean => clock.monotonic() - (failedAt.get(uri) ?? -Infinity) < failedForMs
  const remember = (uri: string): void => {
    failedAt.delete(uri)
    failedAt.set(uri, clock.monotonic())
    for (const oldest of [...failedAt.keys()].slice(0, -maxRemembered)) failedAt.delete(oldest)
  }
  const readOne = async (model: ModelConfig['name'], file: ConfiguredFile): Promise<RemoteFile[]> => {
    const { uri, filename } = file
    try {
      const what = `the header of ${filename}`
      const found = await withDeadline({ clock, ms: deadlineMs, what }, (signal) => readSource(deps, uri, signal))
      if (found === null) return []
      const remote = { model, filename, digest: contentOf(file), ...found }
      await contents.recordRemote(remote)
      return [remote]
    } catch (error) {
      remember(uri)
      log.info('cannot read the header of a model file at its source', { model, file: filename, error })
      return []
    }
  }
  return async (model, files) => {
    const readable = files.filter(({ uri, filename }) => /\.gguf$/i.test(filename) && !isFailing(uri)).slice(0, maxFiles)
    return (await inLanes(readable, { atOnce }, (file) => readOne(model, file))).flat()
  }
}

type FoundHeader = Readonly<{ size: number | null; facts: GgufFacts | null }>
/** The endpoint of workers may be another one; controllers have no settings for it. */
const publicOrigins = {
  hf: { endpoint: 'https://huggingface.co', token: null },
  s3: { endpoint: null, region: 'us-east-1', credentials: null },
}

/** Null for a source that controllers cannot read. */
async function readSource({ outbound, builtin, clock }: SourceHeadersDeps, uri: string, signal: AbortSignal): Promise<FoundHeader | null> {
  const source = parseModelUri(uri)
  if (source.kind === 'builtin') return await readBuiltin(await builtin, source.digest)
  if (source.kind !== 'web' && source.kind !== 'hf') return null
  const { url } = locateFile(source, { origins: publicOrigins, clock })
  const response = await outbound.request({ url, headers: { range: `bytes=0-${maxBytes - 1}` }, signal })
  const { status, headers, body } = response
  if (status !== 200 && status !== 206) {
    body.destroy()
    throw new Error(`${url.host} answered ${status}`)
  }
  const whole = status === 206 ? parseContentRange(headers['content-range'])?.size : Number(headers['content-length'] ?? Number.NaN)
  return { size: Number.isSafeInteger(whole) ? (whole ?? null) : null, facts: await factsIn(body) }
}

async function readBuiltin(blobs: Pick<BuiltinBlobs, 'open' | 'size'>, digest: Digest): Promise<FoundHeader | null> {
  const size = await blobs.size(digest)
  return size === null || size === 0 ? null : { size, facts: await factsIn(blobs.open(digest, { start: 0, end: size - 1 })) }
}

/** Reads no further than the header. Null: not a GGUF file, or its header is too long. */
async function factsIn(body: Readable): Promise<GgufFacts | null> {
  const chunks: Uint8Array[] = []
  let [length, wanted] = [0, firstBytes]
  try {
    for await (const chunk of body) {
      if (!(chunk instanceof Uint8Array)) continue
      chunks.push(chunk)
      length += chunk.length
      if (length < wanted && length < maxBytes) continue
      const reading = readGgufFacts(Buffer.concat(chunks))
      if (reading.kind === 'facts') return reading.facts
      if (reading.kind === 'invalid' || length >= maxBytes) return null
      wanted = Math.max(2 * length, reading.bytes)
    }
    const reading = readGgufFacts(Buffer.concat(chunks))
    return reading.kind === 'facts' ? reading.facts : null
  } finally {
    body.destroy()
  }
}
