// From where a backend comes to what that is now for one platform: its digest and size. A tag is asked for once, here;
// whoever fetches goes by the digest.
import { buffer } from 'node:stream/consumers'
import { type Clock, withDeadline } from '@muster/host'
import { Digest, FleetError, unreachable } from '@muster/protocol'
import {
  chooseManifest,
  parseBuiltinUri,
  parseManifest,
  parseReference,
  sourceKind,
  type OciClient,
  type Outbound,
  type Platform,
} from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { invalidSource, notOffered, toSourceError } from './source-error.ts'

export type Source = Readonly<{
  uri: string
  /** Asked when `uri` does not answer. */
  mirrors: readonly string[]
  /** Of an archive, in hex; empty: not said. */
  sha256: string
  /** Only this content will do. */
  digest: Digest | null
}>

/** `digest` is null where only the worker can know it. */
export type ResolvedSource = Readonly<{ digest: Digest | null; sizeBytes: number | null }>
export type ResolveSource = (source: Source, platform: Platform, signal: AbortSignal) => Promise<ResolvedSource>

export interface ResolveSourceDeps {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly builtin: Promise<BuiltinBlobs>
  readonly clock: Clock
}

const mayTakeMs = 20_000

export function createResolveSource(deps: ResolveSourceDeps): ResolveSource {
  return async (source, platform, signal) => {
    try {
      return await withDeadline({ clock: deps.clock, ms: mayTakeMs, what: `asking for ${source.uri}`, signal }, (until) =>
        resolve(deps, { source, platform, signal: until }),
      )
    } catch (error) {
      throw toSourceError(error)
    }
  }
}

type Asked = Readonly<{ source: Source; platform: Platform; signal: AbortSignal }>

async function resolve(deps: ResolveSourceDeps, asked: Asked): Promise<ResolvedSource> {
  const { source } = asked
  const kind = sourceKind(source.uri)
  switch (kind) {
    case 'oci':
      return await firstOf(asked, (uri) => resolveImage(deps.oci, uri, asked))
    case 'archive': {
      const digest = archiveDigest(source)
      return await firstOf(asked, async (uri) => ({ digest, sizeBytes: await sizeOfArchive(deps.outbound, uri, asked.signal) }))
    }
    case 'builtin':
      return await resolveBuiltin(await deps.builtin, asked)
    case 'file':
      return { digest: source.digest, sizeBytes: null }
    case null:
      throw invalidSource(`${JSON.stringify(source.uri)} is no source: it is oci://…, host/name:tag, https://… or file:///…`)
    default:
      return unreachable(kind)
  }
}

async function resolveImage(oci: OciClient, uri: string, { source, platform, signal }: Asked): Promise<ResolvedSource> {
  const reference = parseReference(uri)
  const pinned = source.digest === null ? reference : { ...reference, digest: source.digest }
  const { indexDigest, manifestDigest, totalBytes } = await oci.resolve(pinned, platform, signal)
  // Of the index where there is one: what the tag means is then the same on every platform, also for those who look by themselves.
  return { digest: indexDigest ?? manifestDigest, sizeBytes: totalBytes }
}

function archiveDigest({ uri, sha256, digest }: Source): Digest {
  const offered = sha256 === '' ? null : Digest.parse(`sha256:${sha256}`)
  if (offered !== null && digest !== null && offered !== digest) throw notOffered(`${uri} is ${offered} now, and ${digest} was asked for`)
  const known = digest ?? offered
  if (known === null) throw invalidSource(`the archive ${uri} needs a digest (sha256:…) to hold it to`)
  return known
}

/** Sees that it is there. Servers that know no HEAD are asked for the first byte. */
async function sizeOfArchive(outbound: Outbound, uri: string, signal: AbortSignal): Promise<number | null> {
  const url = URL.parse(uri)
  if (url === null) throw invalidSource(`${JSON.stringify(uri)} is no URL`)
  const head = await outbound.request({ url, method: 'HEAD', signal })
  head.body.destroy()
  if (head.status === 200) return bytesIn(head.headers['content-length'])
  const part = await outbound.request({ url, headers: { range: 'bytes=0-0' }, signal })
  part.body.destroy()
  if (part.status === 200) return bytesIn(part.headers['content-length'])
  if (part.status === 206) return bytesIn(/\/(\d+)$/.exec(part.headers['content-range'] ?? '')?.[1])
  const message = `${uri} can't be fetched: ${part.url.host} answered ${part.status}`
  if (part.status === 429 || part.status >= 500) throw new FleetError({ code: 'unavailable', retry: 'backoff', message })
  throw part.status === 404 || part.status === 410 ? notOffered(message) : invalidSource(message)
}

const bytesIn = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,15}$/.test(text) && Number(text) > 0 ? Number(text) : null

async function resolveBuiltin(builtin: BuiltinBlobs, { source: { uri, digest }, platform }: Asked): Promise<ResolvedSource> {
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
  // Throws when none is for this platform, with those that there are.
  if (document.kind === 'index') chooseManifest(document.manifests, { platform, what: named.name })
  return { digest: named.digest, sizeBytes: null }
}

/** The first place that answers. What none of them can mend is told by the first. */
async function firstOf<T>({ source, signal }: Asked, ask: (uri: string) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const uri of [source.uri, ...source.mirrors]) {
    try {
      return await ask(uri)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof FleetError && error.failure.code === 'incompatible') throw error
      first ??= error
    }
  }
  throw first
}
