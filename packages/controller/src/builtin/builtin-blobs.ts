// What comes with Muster: backends as images, the gallery that lists them, and the files of models, all as blobs that any
// controller serves by digest. Packing is reproducible, so controllers of one version have the same digests.
import { createReadStream, existsSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode, isTemporary, type Log } from '@muster/host'
import type { Digest, GalleryAddress, ModelGalleryEntry } from '@muster/protocol'
import { formatBuiltinUri, jsonBytes, openLayout, parseGallery, type ImageLayout } from '@muster/source'
import { builtinGalleryName } from '../settings.ts'
import { openBuiltinBackends } from './builtin-backends.ts'
import { readBuiltinModels } from './builtin-models.ts'
import { collectBlobs } from './collect-blobs.ts'

export interface BuiltinBlobs {
  /** Another one once `complete` has added to it. */
  readonly gallery: GalleryAddress
  /** Names of backends that will be in the gallery soon: they are being assembled. */
  missing(): readonly string[]
  /** Resolves when they are, or will not be. */
  readonly completed: Promise<void>
  /** Their files are blobs here too. */
  readonly models: readonly ModelGalleryEntry[]
  /** Null when there is no such blob here. */
  size(digest: Digest): Promise<number | null>
  open(digest: Digest, range: { readonly start: number; readonly end: number }): Readable
  /** Does what a start does not wait for. */
  complete(deps: { readonly signal: AbortSignal; readonly log: Log }): Promise<void>
}

export interface BuiltinPlaces {
  readonly backends: string
  readonly models?: string
  /** Where the blobs are kept. Those of the version before stay: a node may be half way through one. */
  readonly directory: string
  /** Where assembled backends are kept for all controllers of this clone, if it can be written; without it they are not offered. */
  readonly cache?: string
}

export async function packBuiltins({ backends: from, models: modelsFrom, directory, cache }: BuiltinPlaces): Promise<BuiltinBlobs> {
  const models = modelsFrom === undefined ? { entries: [], pathOf: () => null } : await readBuiltinModels(modelsFrom)
  const layout = await openLayout(directory)
  await removeLeftovers(join(directory, 'blobs', 'sha256'))
  const backends = await openBuiltinBackends({
    backends: from,
    layout,
    caches: cache === undefined ? [] : [cache, join(directory, 'assembled')],
  })
  let gallery = await putGallery(layout, backends.entries())
  let coming = backends.missing()
  const completed = Promise.withResolvers<void>()
  if (coming.length === 0) completed.resolve()
  const collect = (): Promise<void> => collectBlobs(directory, new Set([gallery, ...backends.packed]))
  // What is about to get another gallery is not a version yet: the one before it would be taken for the last but one.
  if (coming.length === 0) await collect()

  /** The few places where it can be; that it is there is seen when it is opened. */
  const pathOf = (wanted: Digest): string => {
    const kept = [layout, ...backends.layouts()].map((each) => each.pathOf(wanted))
    return models.pathOf(wanted) ?? kept.find((path) => existsSync(path)) ?? layout.pathOf(wanted)
  }
  return {
    models: models.entries,
    missing: () => coming,
    completed: completed.promise,
    get gallery() {
      return { name: builtinGalleryName, url: formatBuiltinUri({ name: 'gallery', digest: gallery }), kind: 'backend' as const }
    },
    async size(wanted) {
      const found = await stat(pathOf(wanted)).catch(nullWhenAbsent)
      return found?.isFile() === true ? found.size : null
    },
    open: (wanted, { start, end }) => createReadStream(pathOf(wanted), { start, end }),
    async complete(deps) {
      if (coming.length === 0) return
      try {
        await backends.complete(deps)
        deps.signal.throwIfAborted()
        gallery = await putGallery(layout, backends.entries())
        coming = []
      } finally {
        completed.resolve()
      }
      await collect()
    },
  }
}

async function putGallery(layout: ImageLayout, entries: readonly object[]): Promise<Digest> {
  const text = jsonBytes(entries)
  parseGallery(text.toString(), { name: 'the built-in gallery', origin: 'local' })
  return (await layout.putBytes('application/yaml', text)).digest
}

/** What a start that was killed left half written. The data directory has one controller, so it is nobody else's. */
async function removeLeftovers(blobs: string): Promise<void> {
  for (const name of (await readdir(blobs)).filter(isTemporary)) await rm(join(blobs, name), { force: true })
}

function nullWhenAbsent(error: unknown): null {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
  throw error
}
