// Built-in blobs that any controller serves by digest: images of backends, the gallery that lists them, and files of models.
// Packing is reproducible, so controllers of one version have the same digests.
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
  /** Changes when `complete` adds backends. */
  readonly gallery: GalleryAddress
  /** Backends that are still being assembled. */
  missing(): readonly string[]
  /** Resolves when assembling has ended, successfully or not. */
  readonly completed: Promise<void>
  /** The models' files are blobs too. */
  readonly models: readonly ModelGalleryEntry[]
  /** Null for an unknown blob. */
  size(digest: Digest): Promise<number | null>
  open(digest: Digest, range: { readonly start: number; readonly end: number }): Readable
  /** Assembles missing backends, after the start. */
  complete(deps: { readonly signal: AbortSignal; readonly log: Log }): Promise<void>
}

export interface BuiltinDirectories {
  readonly backends: string
  readonly models?: string
  /** The blobs' directory. Blobs of the previous version stay, because a node may be downloading one. */
  readonly directory: string
  /** The cache of assembled backends for all controllers of this clone; without it they are not offered. */
  readonly cache?: string
}

export async function packBuiltins({ backends: from, models: modelsFrom, directory, cache }: BuiltinDirectories): Promise<BuiltinBlobs> {
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
  // While backends are missing the gallery is not final, and must not count as a version.
  if (coming.length === 0) await collect()

  /** The blob's path, if it exists. */
  const pathOf = (digest: Digest): string => {
    const kept = [layout, ...backends.layouts()].map((each) => each.pathOf(digest))
    return models.pathOf(digest) ?? kept.find((path) => existsSync(path)) ?? layout.pathOf(digest)
  }
  return {
    models: models.entries,
    missing: () => coming,
    completed: completed.promise,
    get gallery() {
      return { name: builtinGalleryName, url: formatBuiltinUri({ name: 'gallery', digest: gallery }), kind: 'backend' as const }
    },
    async size(digest) {
      const found = await stat(pathOf(digest)).catch(noBlobWhenAbsent)
      return found?.isFile() === true ? found.size : null
    },
    open: (digest, { start, end }) => createReadStream(pathOf(digest), { start, end }),
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

/** Removes partial files of a killed start. A data directory has one controller. */
async function removeLeftovers(blobs: string): Promise<void> {
  for (const name of (await readdir(blobs)).filter(isTemporary)) await rm(join(blobs, name), { force: true })
}

function noBlobWhenAbsent(error: unknown): null {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
  throw error
}
