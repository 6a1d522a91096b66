// Pushes a packed image to a registry (OCI distribution): existing blobs are not sent again, and the tag is set last, so
// that no client sees half an image.
import { open } from 'node:fs/promises'
import { FleetError, type Digest } from '@muster/protocol'
import type { OciReference } from '../oci/reference.ts'
import type { RegistryApi, RegistryRequest } from '../oci/registry-api.ts'
import type { OutboundResponse } from '../outbound/outbound.ts'
import type { Descriptor } from './image-layout.ts'
import type { PackedImage } from './pack-directory.ts'

export interface PushOptions {
  readonly to: OciReference
  readonly registry: RegistryApi
  readonly signal: AbortSignal
  readonly onBlob?: (blob: Descriptor, outcome: 'sent' | 'there already') => void
  /** Larger blobs go in chunks of this size: proxies in front of registries limit requests. */
  readonly chunkBytes?: number
}

const defaultChunkBytes = 64 * 1024 * 1024

type Call = (request: Omit<RegistryRequest, 'reference' | 'signal' | 'access'>) => Promise<OutboundResponse>

export async function pushImage(image: PackedImage, options: PushOptions): Promise<Digest> {
  const { to, registry, signal, chunkBytes = defaultChunkBytes } = options
  const { tag } = to
  if (tag === null) throw new FleetError({ code: 'invalid', retry: 'never', message: 'an image is pushed under a tag, not under a digest' })
  const call: Call = (request) => registry({ ...request, reference: to, access: 'pull,push', signal })
  for (const blob of image.blobs) {
    const isThere = await hasBlob(call, blob.digest)
    if (!isThere) await sendBlob(call, { blob, path: image.layout.pathOf(blob.digest), chunkBytes })
    options.onBlob?.(blob, isThere ? 'there already' : 'sent')
  }
  // By digest first: an index may only name existing manifests.
  const inner = image.manifests.filter((manifest) => manifest.digest !== image.root.digest)
  for (const manifest of inner) await putManifest(call, { manifest, name: manifest.digest, path: image.layout.pathOf(manifest.digest) })
  await putManifest(call, { manifest: image.root, name: tag, path: image.layout.pathOf(image.root.digest) })
  return image.root.digest
}

async function hasBlob(call: Call, digest: Digest): Promise<boolean> {
  const response = await call({ method: 'HEAD', path: `blobs/${digest}` })
  if (response.status !== 200 && response.status !== 404) throw await refusalOf(response, `was queried for ${digest}`)
  response.body.destroy()
  return response.status === 200
}

async function sendBlob(call: Call, { blob, path, chunkBytes }: { blob: Descriptor; path: string; chunkBytes: number }): Promise<void> {
  const doing = `was sent ${blob.digest}`
  const type = { 'content-type': 'application/octet-stream' }
  const begun = await call({ method: 'POST', path: 'blobs/uploads/', headers: { 'content-length': '0' }, body: nothing })
  let upload = await locationOf(begun, doing)
  const isWhole = blob.size <= chunkBytes
  for (let offset = 0; !isWhole && offset < blob.size; offset += chunkBytes) {
    const range = { start: offset, end: Math.min(offset + chunkBytes, blob.size) }
    const headers = { ...type, 'content-length': String(range.end - range.start), 'content-range': `${range.start}-${range.end - 1}` }
    upload = await locationOf(await call({ method: 'PATCH', path: upload, headers, body: () => readRange(path, range) }), doing)
  }
  upload.searchParams.set('digest', blob.digest)
  const rest = isWhole ? { start: 0, end: blob.size } : { start: 0, end: 0 }
  const headers = { ...type, 'content-length': String(rest.end) }
  const done = await call({ method: 'PUT', path: upload, headers, body: () => (isWhole ? readRange(path, rest) : nothing()) })
  if (done.status !== 201) throw await refusalOf(done, doing)
  done.body.destroy()
}

/** The URL of the next chunk: it may be relative, or on another host. */
async function locationOf(response: OutboundResponse, doing: string): Promise<URL> {
  const url = URL.parse(response.headers['location'] ?? '', response.url.href)
  if (response.status !== 202 || response.headers['location'] === undefined || url === null) throw await refusalOf(response, doing)
  response.body.destroy()
  return url
}

const nothing = (): Uint8Array => new Uint8Array()

async function* readRange(path: string, { start, end }: { start: number; end: number }): AsyncGenerator<Uint8Array> {
  await using file = await open(path, 'r')
  yield* file.createReadStream({ start, end: end - 1, autoClose: false, highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>
}

async function putManifest(call: Call, { manifest, name, path }: { manifest: Descriptor; name: string; path: string }): Promise<void> {
  const headers = { 'content-type': manifest.mediaType, 'content-length': String(manifest.size) }
  const response = await call({
    method: 'PUT',
    path: `manifests/${name}`,
    headers,
    body: () => readRange(path, { start: 0, end: manifest.size }),
  })
  if (response.status !== 201) throw await refusalOf(response, `was to name the image ${name}`)
  response.body.destroy()
  const stored = response.headers['docker-content-digest']
  if (stored === undefined || stored === manifest.digest) return
  const message = `${response.url.host} stored the image as ${stored.slice(0, 80)} instead of ${manifest.digest}`
  throw new FleetError({ code: 'integrity', retry: 'never', message })
}

async function refusalOf(response: OutboundResponse, doing: string): Promise<FleetError> {
  const detail = (await response.text(65_536).catch(() => '')).trim().slice(0, 300)
  const message = `${response.url.host} answered ${response.status} when it ${doing}${detail === '' ? '' : `: ${detail}`}`
  if (response.status === 401 || response.status === 403) {
    const hint = 'log in to the registry first (docker login, or a config.json with its credentials)'
    return new FleetError({ code: 'invalid', retry: 'never', message: `${message}; ${hint}` })
  }
  const isPassing = response.status === 429 || response.status >= 500
  return new FleetError({ code: isPassing ? 'unavailable' : 'invalid', retry: isPassing ? 'backoff' : 'never', message })
}
