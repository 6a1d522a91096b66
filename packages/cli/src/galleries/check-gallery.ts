// Reads a gallery on this machine with the parser of controllers and workers, and counts the entries that can be used.
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Clock, errorCode, errorMessage, silentLog } from '@muster/host'
import { FleetError, type GalleryKind, type LeftOutEntry } from '@muster/protocol'
import {
  channelOf,
  type CheckedModels,
  checkModels,
  createBaseFiles,
  createGalleryTextReader,
  createOutbound,
  isMeta,
  parseGalleryBeside,
  parseModelGalleryBeside,
  resolveMeta,
} from '@muster/source'
import { CliError } from '../cli-error.ts'

export interface CheckRequest {
  /** A URL, or a path on this machine. */
  readonly gallery: string
  /** Null: by the keys of its entries. */
  readonly kind: GalleryKind | null
  readonly allowSource: readonly string[]
  readonly clock: Clock
  readonly signal: AbortSignal
}

interface Counts {
  readonly url: string
  readonly entries: number
  readonly left_out: number
  /** The first ones. */
  readonly left_out_entries: readonly LeftOutEntry[]
}

export type CheckedBackend = Readonly<{ name: string; channel: 'release' | 'development'; builds: Readonly<Record<string, string | null>> }>
export type CheckedGallery = Counts &
  (({ readonly kind: 'model' } & CheckedModels) | { readonly kind: 'backend'; readonly metas: readonly CheckedBackend[] })

export async function checkGallery(request: CheckRequest): Promise<CheckedGallery> {
  const { gallery, allowSource, clock, signal } = request
  const outbound = createOutbound({ allow: [...allowSource], clock, log: silentLog })
  const url = await galleryUrlOf(gallery)
  try {
    const { text, origin } = await createGalleryTextReader({ outbound, readBuiltin: refuseBuiltin })({ name: gallery, url }, signal)
    const job = { text, options: { name: `the gallery ${gallery}`, origin } }
    const kind = request.kind ?? guessKind(text)
    if (kind === 'backend') {
      const { entries, leftOut, leftOutCount } = await parseGalleryBeside(job, signal)
      const metas = entries.filter(isMeta).map((entry) => ({ name: entry.name, channel: channelOf(entry), builds: resolveMeta(entry) }))
      return { kind, ...countsOf({ url, entries, leftOut, leftOutCount }), metas }
    }
    const { entries, leftOut, leftOutCount } = await parseModelGalleryBeside(job, signal)
    const bases = createBaseFiles({ outbound, clock })
    return {
      kind,
      ...countsOf({ url, entries, leftOut, leftOutCount }),
      ...(await checkModels(entries, { bases, galleryUrl: url, signal })),
    }
  } catch (error) {
    if (error instanceof FleetError) throw new CliError(error.failure.message)
    throw error
  }
}

type Parsed = Readonly<{ url: string; entries: readonly unknown[]; leftOut: readonly LeftOutEntry[]; leftOutCount: number }>

const countsOf = ({ url, entries, leftOut, leftOutCount }: Parsed): Counts => ({
  ...{ url, entries: entries.length, left_out: leftOutCount, left_out_entries: leftOut },
})

const refuseBuiltin = (): Promise<never> =>
  Promise.reject(new CliError('the built-in gallery is part of controllers; name a URL or a file'))

/** A file wins over a URL without a scheme. */
async function galleryUrlOf(text: string): Promise<string> {
  if (/^(?:[a-z][a-z0-9+.-]*:\/\/|github:)/i.test(text)) return text
  const path = resolve(text)
  try {
    await readFile(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new CliError(`there is no file ${path}; name a file, https://… or github:owner/repo/path@ref`)
    throw new CliError(`cannot read ${path}: ${errorMessage(error)}`)
  }
  return pathToFileURL(path).href
}

/** Only backends have capabilities; only models have the other keys. */
function guessKind(text: string): GalleryKind {
  const has = (keys: string): boolean => new RegExp(`(?:^|[\\s{,])(?:${keys}):\\s`, 'm').test(text)
  return !has('capabilities') && has('overrides|files|config|config_file') ? 'model' : 'backend'
}
