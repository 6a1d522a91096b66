// Resolves a source for one platform to its current digest and size. Tags are resolved here only; workers fetch by digest.
import { buffer } from 'node:stream/consumers'
import { type Clock, withDeadline } from '@muster/host'
import { Digest, FleetError, unreachable } from '@muster/protocol'
import {
  chooseManifest,
  failureOfStatus,
  formatUrl,
  type OciClient,
  type OnWait,
  type Outbound,
  parseBuiltinUri,
  parseManifest,
  parseReference,
  type Platform,
  SourceBusyError,
  sourceKind,
} from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'

export type Source = Readonly<{
  uri: string
  /** Tried when `uri` does not respond. */
  mirrors: readonly string[]
  /** The archive's hash in hex; empty: unknown. */
  sha256: string
  /** The required content; null: any. */
  digest: Digest | null
}>

/** `digest` is null when only the worker can compute it. */
export type ResolvedSource = Readonly<{ digest: Digest | null; sizeBytes: number | null }>
export type ResolveSource = (source: Source, platform: Platform, signal: AbortSignal) => Promise<ResolvedSource>

export interface ResolveSourceDeps {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly builtin: Promise<BuiltinBlobs>
  readonly clock: Clock
}

const timeoutMs = 20_000

export function createResolveSource(deps: ResolveSourceDeps): ResolveSource {
  return async (source, platform, signal) => {
    const { clock } = deps
    const endsAt = clock.monotonic() + timeoutMs
    // A source that asks for a longer pause (a rate limit) is reported at once, with its answer.
    const onWait: OnWait = (cause, waitMs) => {
      if (clock.monotonic() + waitMs > endsAt) throw cause
    }
    try {
      return await withDeadline({ clock, ms: timeoutMs, what: `resolving ${source.uri}`, signal }, (until) =>
        resolve(deps, { source, platform, signal: until, onWait }),
      )
    } catch (error) {
      throw toSourceError(error)
    }
  }
}

type ResolveQuery = Readonly<{ source: Source; platform: Platform; signal: AbortSignal; onWait: OnWait }>

async function resolve(deps: ResolveSourceDeps, query: ResolveQuery): Promise<ResolvedSource> {
  const { source } = query
  const kind = sourceKind(source.uri)
  switch (kind) {
    case 'oci':
      return await firstOf(query, (uri) => resolveImage(deps.oci.reporting(query.onWait), uri, query))
    case 'archive': {
      const digest = archiveDigest(source)
      return await firstOf(query, async (uri) => ({ digest, sizeBytes: await sizeOfArchive(deps, uri, query.signal) }))
    }
    case 'builtin':
      return await resolveBuiltin(await deps.builtin, query)
    case 'file':
      return { digest: source.digest, sizeBytes: null }
    case null:
      throw invalidSource(`unsupported source ${JSON.stringify(source.uri)}; expected oci://…, host/name:tag, https://… or file:///…`)
    default:
      return unreachable(kind)
  }
}

async function resolveImage(oci: OciClient, uri: string, { source, platform, signal }: ResolveQuery): Promise<ResolvedSource> {
  const reference = parseReference(uri)
  const pinned = source.digest === null ? reference : { ...reference, digest: source.digest }
  const { indexDigest, manifestDigest, totalBytes } = await oci.resolve(pinned, platform, signal)
  // The index digest if there is one: it is the same on every platform.
  return { digest: indexDigest ?? manifestDigest, sizeBytes: totalBytes }
}

function archiveDigest({ uri, sha256, digest }: Source): Digest {
  const offered = sha256 === '' ? null : Digest.parse(`sha256:${sha256}`)
  if (offered !== null && digest !== null && offered !== digest) throw notOffered(`${uri} is ${offered} now, and ${digest} was requested`)
  const expected = digest ?? offered
  if (expected === null) throw invalidSource(`the archive ${uri} needs a digest (sha256:…) to verify it`)
  return expected
}

/** Checks that the archive exists. On servers without HEAD the first byte is requested. */
async function sizeOfArchive({ outbound, clock }: ResolveSourceDeps, uri: string, signal: AbortSignal): Promise<number | null> {
  const url = URL.parse(uri)
  if (url === null) throw invalidSource(`${JSON.stringify(uri)} is not a URL`)
  const head = await outbound.request({ url, method: 'HEAD', signal })
  head.body.destroy()
  if (head.status === 200) return bytesIn(head.headers['content-length'])
  const part = await outbound.request({ url, headers: { range: 'bytes=0-0' }, signal })
  const isThere = part.status === 200 || part.status === 206
  if (isThere) part.body.destroy()
  if (part.status === 200) return bytesIn(part.headers['content-length'])
  if (part.status === 206) return bytesIn(/\/(\d+)$/.exec(part.headers['content-range'] ?? '')?.[1])
  throw await failureOfStatus(part, { what: `the archive ${formatUrl(url)}`, server: part.url.host, now: clock.now() })
}

const bytesIn = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,15}$/.test(text) && Number(text) > 0 ? Number(text) : null

async function resolveBuiltin(builtin: BuiltinBlobs, { source: { uri, digest }, platform }: ResolveQuery): Promise<ResolvedSource> {
  const named = parseBuiltinUri(uri)
  if (named === null) throw invalidSource(`${JSON.stringify(uri)} names no built-in backend`)
  if (digest !== null && digest !== named.digest)
    throw notOffered(`${named.name} is ${named.digest} in this version of Muster, not ${digest}`)
  const size = await builtin.size(named.digest)
  if (size === null) throw notOffered(`no controller of this version has ${uri}`)
  const document = parseManifest(await buffer(builtin.open(named.digest, { start: 0, end: size - 1 })), {
    what: uri,
    contentType: undefined,
  })
  // Throws when no manifest fits this platform, and lists the platforms.
  if (document.kind === 'index') chooseManifest(document.manifests, { platform, what: named.name })
  return { digest: named.digest, sizeBytes: null }
}

/** The result of the first address that responds; if none does, the first error. */
async function firstOf<T>({ source, signal }: ResolveQuery, resolveAt: (uri: string) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const uri of [source.uri, ...source.mirrors]) {
    try {
      return await resolveAt(uri)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof FleetError && error.failure.code === 'incompatible') throw error
      first ??= error
    }
  }
  throw first
}

/** The source did not respond; a retry may help. */
export class SourceUnavailable extends FleetError {
  /** The pause that the source asks for; null: it does not say. */
  readonly retryAfterMs: number | null

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | null } = {}) {
    super({ code: 'unavailable', retry: 'backoff', message: message.slice(0, 8192) }, options)
    this.name = 'SourceUnavailable'
    this.retryAfterMs = options.retryAfterMs ?? null
  }
}

export const notOffered = (message: string): FleetError => new FleetError({ code: 'not_found', retry: 'never', message })
export const invalidSource = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

/** Converts an error of a source. */
function toSourceError(error: unknown): unknown {
  if (!(error instanceof FleetError)) return error
  const { code, message } = error.failure
  if (code !== 'unavailable' && code !== 'timeout') return error
  return new SourceUnavailable(message, { cause: error, retryAfterMs: error instanceof SourceBusyError ? error.retryAfterMs : null })
}
