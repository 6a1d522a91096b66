// What comes with Muster: each directory of `backends/` as an image, the gallery that lists them, and the files of models,
// all as blobs that any controller serves by digest. Packing is reproducible, so controllers of one version have the same digests.
import { createReadStream } from 'node:fs'
import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode, isTemporary } from '@muster/host'
import { BackendName, type Digest, type GalleryAddress, type ModelGalleryEntry } from '@muster/protocol'
import { formatBuiltinUri, jsonBytes, openLayout, packDirectory, parseGallery, type ImageLayout } from '@muster/source'
import { z } from 'zod'
import { builtinGalleryName } from '../settings.ts'
import { readBuiltinModels } from './builtin-models.ts'
import { collectBlobs } from './collect-blobs.ts'

export interface BuiltinBlobs {
  readonly gallery: GalleryAddress
  /** Their files are blobs here too. */
  readonly models: readonly ModelGalleryEntry[]
  /** Null when there is no such blob here. */
  size(digest: Digest): Promise<number | null>
  open(digest: Digest, range: { readonly start: number; readonly end: number }): Readable
}

/** What of a backend.json is for the gallery. */
const BackendFile = z.object({
  name: BackendName,
  version: z.string().max(256).default(''),
  description: z.string().optional(),
  license: z.string().optional(),
  tags: z.array(z.string()).optional(),
})

export interface BuiltinPlaces {
  readonly backends: string
  readonly models?: string
  /** Where the blobs are kept. Those of the version before stay: a node may be half way through one. */
  readonly directory: string
}

export async function packBuiltins({ backends, models: modelsDirectory, directory }: BuiltinPlaces): Promise<BuiltinBlobs> {
  const models = modelsDirectory === undefined ? { entries: [], pathOf: () => null } : await readBuiltinModels(modelsDirectory)
  const layout = await openLayout(directory)
  await removeLeftovers(join(directory, 'blobs', 'sha256'))
  const packed = []
  for (const name of (await readdir(backends)).toSorted()) {
    const backend = await packBackend(join(backends, name), layout)
    if (backend !== null) packed.push(backend)
  }
  const text = jsonBytes(packed.map(({ entry }) => entry))
  parseGallery(text.toString(), { name: 'the built-in gallery', origin: 'local' })
  const { digest } = await layout.putBytes('application/yaml', text)
  await collectBlobs(directory, new Set([digest, ...packed.flatMap(({ blobs }) => blobs)]))
  const pathOf = (wanted: Digest): string => models.pathOf(wanted) ?? layout.pathOf(wanted)
  return {
    models: models.entries,
    gallery: { name: builtinGalleryName, url: formatBuiltinUri({ name: 'gallery', digest }), kind: 'backend' },
    async size(wanted) {
      const found = await stat(pathOf(wanted)).catch(nullWhenAbsent)
      return found?.isFile() === true ? found.size : null
    },
    open: (wanted, { start, end }) => createReadStream(pathOf(wanted), { start, end }),
  }
}

/** What a start that was killed left half written. The data directory has one controller, so it is nobody else's. */
async function removeLeftovers(blobs: string): Promise<void> {
  for (const name of (await readdir(blobs)).filter(isTemporary)) await rm(join(blobs, name), { force: true })
}

/** Null for what is not a backend, such as a page about them, and for one that is nothing without its packages. */
async function packBackend(directory: string, layout: ImageLayout): Promise<{ entry: object; blobs: Digest[] } | null> {
  const text = await readFile(join(directory, 'backend.json'), 'utf8').catch(nullWhenAbsent)
  if (text === null || (await stat(join(directory, 'package.json')).catch(nullWhenAbsent)) !== null) return null
  const { name, ...about } = BackendFile.parse(JSON.parse(text))
  const image = await packDirectory(directory, { layout: layout.directory, refName: name })
  return {
    entry: { name, uri: formatBuiltinUri({ name, digest: image.root.digest }), ...about },
    blobs: [image.root, ...image.manifests, ...image.blobs].map(({ digest }) => digest),
  }
}

function nullWhenAbsent(error: unknown): null {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
  throw error
}
