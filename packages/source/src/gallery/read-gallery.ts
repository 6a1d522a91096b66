// Reads a gallery from its URL. Every failure is one FleetError that names the gallery.
import { open } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { errorMessage } from '@muster/host'
import { type Digest, FleetError } from '@muster/protocol'
import type { Outbound } from '../outbound/outbound.ts'
import { howToAddCredentials } from '../credentials/url-credentials.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'
import type { Gallery } from './choose.ts'
import { rawGithubUrl } from './github-url.pure.ts'
import { galleryLimits } from './parse-gallery.ts'
import { parseGalleryBeside, type ParseJob, parseModelGalleryBeside } from './parse-thread.ts'
import { type GalleryOrigin, parseBuiltinUri } from './source-uri.ts'

export interface GalleryReaderDeps {
  readonly outbound: Outbound
  /** The text of a built-in gallery, by digest; the worker requests it from a controller. */
  readonly readBuiltin: (digest: Digest, signal: AbortSignal) => Promise<string>
}

export interface GalleryAddress {
  readonly name: string
  /** https:, http: (listed hosts only), file:, github:owner/repo/path[@ref], or builtin://gallery@sha256:… */
  readonly url: string
}

/** More than a cluster has. */
const mostParsed = 64

export type GalleryReader = ReturnType<typeof createGalleryReader>

/** Reads the text of a gallery, without parsing it. */
export function createGalleryTextReader({ outbound, readBuiltin }: GalleryReaderDeps) {
  async function fetchText(name: string, url: URL, signal: AbortSignal): Promise<string> {
    const what = `cannot read the gallery ${name}`
    const headers = { accept: 'application/yaml, text/yaml, text/plain, */*' }
    const response = await outbound.request({ url, headers, signal, what })
    if (response.status === 200) return await response.text(galleryLimits.maxBytes)
    const now = Date.parse(response.headers['date'] ?? '')
    if (response.status === 429) throw await failureOfStatus(response, { what, server: response.url.host, now })
    response.body.destroy()
    const hint = response.status === 401 || response.status === 403 ? `; ${howToAddCredentials(url)}` : ''
    const message = `${what}: ${response.url.host} answered ${response.status}${hint}`
    if (response.status === 404 || response.status === 410) throw new FleetError({ code: 'not_found', retry: 'never', message })
    throw new FleetError({ code: 'unavailable', retry: 'backoff', message })
  }

  async function textOf({ name, url }: GalleryAddress, signal: AbortSignal): Promise<{ text: string; origin: GalleryOrigin }> {
    const builtin = parseBuiltinUri(url)
    if (builtin !== null) return { text: await readBuiltin(builtin.digest, signal), origin: 'local' }
    const address = galleryUrl(url)
    if (address === null) throw invalid(`the gallery ${name} has no address that can be read: ${JSON.stringify(url)}`)
    if (address.protocol === 'file:') return { text: await readBounded(name, address), origin: 'local' }
    return { text: await fetchText(name, address, signal), origin: 'remote' }
  }
  return textOf
}

export function createGalleryReader(deps: GalleryReaderDeps) {
  return createReader(deps, async (job, { name }, signal): Promise<Gallery> => ({ name, ...(await parseGalleryBeside(job, signal)) }))
}

export function createModelGalleryReader(deps: GalleryReaderDeps) {
  return createReader(deps, async (job, _, signal) => await parseModelGalleryBeside(job, signal))
}

type Parse<T> = (job: ParseJob, address: GalleryAddress, signal: AbortSignal) => Promise<T>

/** Reading is cheap, parsing is not, and the text rarely changes. */
function createReader<T>(deps: GalleryReaderDeps, parse: Parse<T>) {
  const textOf = createGalleryTextReader(deps)
  const parsed = new Map<string, { readonly text: string; readonly gallery: T }>()
  return async (address: GalleryAddress, signal: AbortSignal): Promise<T> => {
    const { text, origin } = await textOf(address, signal)
    const key = JSON.stringify([address.name, address.url])
    const before = parsed.get(key)
    if (before?.text === text) return before.gallery
    const gallery = await parse({ text, options: { name: `the gallery ${address.name}`, origin } }, address, signal)
    if (parsed.size >= mostParsed) parsed.clear()
    parsed.set(key, { text, gallery })
    return gallery
  }
}

/** The address to read; null for an unsupported URL. */
export function galleryUrl(text: string): URL | null {
  const github = rawGithubUrl(text)
  if (github !== null) return github
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['https:', 'http:', 'file:'].includes(url.protocol)) return null
  return url.username === '' && url.password === '' ? url : null
}

async function readBounded(name: string, url: URL): Promise<string> {
  try {
    await using file = await open(fileURLToPath(url), 'r')
    const { size } = await file.stat()
    if (size > galleryLimits.maxBytes)
      throw invalid(`cannot read the gallery ${name}: it has ${size} bytes; at most ${galleryLimits.maxBytes} are read`)
    return await file.readFile('utf8')
  } catch (error) {
    if (error instanceof FleetError) throw error
    const reason = errorMessage(error)
    throw new FleetError({ code: 'not_found', retry: 'never', message: `cannot read the gallery ${name}: ${reason}` }, { cause: error })
  }
}

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })
