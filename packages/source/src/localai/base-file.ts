// Base files of LocalAI's model galleries: the file that `url` of an entry names, with the configuration that the overrides are
// merged over. Read through the guard of outbound requests, bounded, and kept for some minutes: hundreds of entries share one.
import { open } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Clock, errorCode, errorMessage } from '@muster/host'
import { ConfigFile, FleetError } from '@muster/protocol'
import { rawGithubUrl } from '../gallery/github-url.pure.ts'
import { readYaml } from '../gallery/yaml-value.ts'
import { formatUrl, type Outbound } from '../outbound/outbound.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'
import { isMapping } from './merge-overrides.pure.ts'
import { fileOf, readConfigFile } from './model-entry.ts'

export interface BaseFile {
  readonly config: Readonly<Record<string, unknown>>
  readonly files: readonly ConfigFile[]
}

export const noBase: BaseFile = { config: {}, files: [] }

const limits = { maxBytes: 512 * 1024, maxValues: 20_000, maxDepth: 24, scalars: 'typed' } as const

/** Throws FleetError `invalid`. `what` is its name in errors. */
export function parseBaseFile(text: string, what: string): BaseFile {
  const value = readYaml(text, what, limits) ?? {}
  if (!isMapping(value)) throw invalid(`cannot read ${what}: it is not a mapping`)
  try {
    const files: readonly unknown[] = Array.isArray(value['files']) ? value['files'] : []
    return {
      config: readConfigFile(value['config_file']),
      files: files.map((file, index) => ConfigFile.parse(fileOf(file, `files.${index}`))),
    }
  } catch (error) {
    throw invalid(`cannot read ${what}: ${errorMessage(error).replace(/^cannot read /, '')}`)
  }
}

/** A file with the same name beside an index on this machine is used instead of the one that the entry names. */
export type BaseQuery = Readonly<{ url: string; galleryUrl: string }>

export interface BaseFiles {
  /** Throws FleetError. */
  read(query: BaseQuery, signal: AbortSignal): Promise<BaseFile>
  /** The last content, however old; null when it was not read yet. */
  known(query: BaseQuery): BaseFile | null
}

const keptMs = 600_000
/** More than the largest gallery names. */
const mostKept = 512

export function createBaseFiles({ outbound, clock }: { readonly outbound: Outbound; readonly clock: Clock }): BaseFiles {
  const kept = new Map<string, { readonly base: Promise<BaseFile>; readonly at: number }>()
  const known = new Map<string, BaseFile>()
  const readNow = async ({ url, galleryUrl }: BaseQuery, signal: AbortSignal): Promise<BaseFile> => {
    for (const path of besideIndex(url, galleryUrl)) {
      const text = await readFile(path)
      if (text !== null) return parseBaseFile(text, `the base file ${path}`)
    }
    const address = baseUrl(url)
    const what = `the base file ${url.slice(0, 300)}`
    if (address === null)
      throw invalid(
        `unsupported base file ${JSON.stringify(url.slice(0, 200))}; expected https://…, github:owner/repo/path@ref or file:///…`,
      )
    if (address.protocol !== 'file:') return parseBaseFile(await fetchText({ outbound, clock }, { address, what }, signal), what)
    // A gallery from the network must not read files of this machine.
    if (!galleryUrl.startsWith('file:'))
      throw invalid(`${url.slice(0, 300)} names a file of this machine, which only a gallery on the machine itself may do`)
    const text = await readFile(fileURLToPath(address))
    if (text === null) throw new FleetError({ code: 'not_found', retry: 'never', message: `cannot read ${what}: it does not exist` })
    return parseBaseFile(text, what)
  }
  return {
    known: (query) => known.get(keyOf(query)) ?? null,
    async read(query, signal) {
      const key = keyOf(query)
      const last = kept.get(key)
      if (last !== undefined && clock.monotonic() - last.at < keptMs) return await last.base
      const base = readNow(query, signal)
      if (kept.size >= mostKept) kept.clear()
      kept.set(key, { base, at: clock.monotonic() })
      try {
        const content = await base
        if (known.size >= mostKept) known.clear()
        known.set(key, content)
        return content
      } catch (error) {
        kept.delete(key)
        throw error
      }
    },
  }
}

const keyOf = ({ url, galleryUrl }: BaseQuery): string => JSON.stringify([url, galleryUrl.startsWith('file:') ? galleryUrl : ''])

async function fetchText(
  { outbound, clock }: { readonly outbound: Outbound; readonly clock: Clock },
  { address, what }: { readonly address: URL; readonly what: string },
  signal: AbortSignal,
): Promise<string> {
  const response = await outbound.request({ url: address, signal, what: `cannot read ${what}` })
  if (response.status === 200) return await response.text(limits.maxBytes)
  throw await failureOfStatus(response, { what: `the base file ${formatUrl(address)}`, server: response.url.host, now: clock.now() })
}

/** Null when the file does not exist. */
async function readFile(path: string): Promise<string | null> {
  try {
    await using file = await open(path, 'r')
    const { size } = await file.stat()
    if (size > limits.maxBytes) throw invalid(`cannot read ${path}: it has ${size} bytes; at most ${limits.maxBytes} are read`)
    return await file.readFile('utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
    if (error instanceof FleetError) throw error
    throw new FleetError(
      { code: 'unavailable', retry: 'backoff', message: `cannot read ${path}: ${errorMessage(error)}` },
      { cause: error },
    )
  }
}

function baseUrl(text: string): URL | null {
  const github = rawGithubUrl(text.replace(/^github:\/\//, 'github:'))
  if (github !== null) return github
  const url = URL.parse(text)
  return url !== null && ['https:', 'http:', 'file:'].includes(url.protocol) && url.username === '' && url.password === '' ? url : null
}

/** For a github: address and an index on this machine: the same file beside the index, or in a folder `base` beside it. */
function besideIndex(url: string, galleryUrl: string): string[] {
  const remote = rawGithubUrl(url.replace(/^github:\/\//, 'github:'))
  if (remote === null || !galleryUrl.startsWith('file:')) return []
  const [name, folder] = [basename(remote.pathname), dirname(fileURLToPath(galleryUrl))]
  return [join(folder, name), join(folder, 'base', name)]
}

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })
