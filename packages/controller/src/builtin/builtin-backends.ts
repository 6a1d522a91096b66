// Backends that come with Muster: each directory of `backends/`. One that is complete as it is becomes an image at each
// start; one with packages of its own is offered once it is assembled, which takes longer than a start may.
import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorCode, type Log } from '@muster/host'
import { BackendName, type Digest } from '@muster/protocol'
import { formatBuiltinUri, packDirectory, type ImageLayout } from '@muster/source'
import { z } from 'zod'
import { assembleImage, findAssembled, type AssembledImage } from './assembled-images.ts'
import { readAssembly, type Assemblable } from './assembly.ts'

/** What of a backend.json is for the gallery. */
const BackendFile = z.object({
  name: BackendName,
  version: z.string().max(256).default(''),
  description: z.string().optional(),
  license: z.string().optional(),
  tags: z.array(z.string()).optional(),
})
type Entry = z.infer<typeof BackendFile> & { readonly uri: string }

export interface BuiltinBackends {
  /** Of the gallery, by name. */
  entries(): Entry[]
  /** What those that are packed at each start consist of. */
  readonly packed: readonly Digest[]
  /** Where the assembled ones are. */
  layouts(): readonly ImageLayout[]
  /** Not assembled yet. */
  missing(): readonly string[]
  /** Assembles what is missing. What can't be is not offered, and logged. */
  complete(deps: { readonly signal: AbortSignal; readonly log: Log }): Promise<void>
}

export interface BackendPlaces {
  readonly backends: string
  /** Takes the images of those that are packed. */
  readonly layout: ImageLayout
  /** Where assembled ones are kept: the first that can be written. Without any they are not offered. */
  readonly caches: readonly string[]
}

export async function openBuiltinBackends({ backends, layout, caches }: BackendPlaces): Promise<BuiltinBackends> {
  const entries: Entry[] = []
  const packed: Digest[] = []
  const layouts: ImageLayout[] = []
  const missing: Assemblable[] = []
  const add = async (backend: Assemblable, made: AssembledImage): Promise<void> => {
    layouts.push(made.layout)
    entries.push(await entryOf(backend.directory, made.root))
  }
  for (const directory of await directoriesOf(backends)) {
    const assemblable = await readAssembly(directory, dirname(backends))
    if (assemblable === null) {
      const image = await packDirectory(directory, { layout: layout.directory, refName: basename(directory) })
      packed.push(...[image.root, ...image.manifests, ...image.blobs].map(({ digest }) => digest))
      entries.push(await entryOf(directory, image.root.digest))
    } else if (caches.length > 0 && assemblable.platforms.length > 0) {
      const made = await findIn(assemblable, caches)
      if (made === null) missing.push(assemblable)
      else await add(assemblable, made)
    }
  }
  return {
    entries: () => entries.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    packed,
    layouts: () => layouts,
    missing: () => missing.map(({ directory }) => basename(directory)),
    async complete({ signal, log }) {
      for (const backend of missing.splice(0)) {
        const { directory } = backend
        const from = performance.now()
        try {
          await add(backend, await assembleIn(backend, caches, signal))
          log.info('a backend was assembled', { directory, ms: Math.round(performance.now() - from) })
        } catch (error) {
          if (!signal.aborted) log.warn('a backend can not be offered: it could not be assembled', { directory, error })
        }
      }
    },
  }
}

async function findIn(backend: Assemblable, caches: readonly string[]): Promise<AssembledImage | null> {
  for (const cache of caches) {
    const found = await findAssembled(backend, cache)
    if (found !== null) return found
  }
  return null
}

/** A clone may belong to somebody else than the controller that runs from it. */
const notMine = new Set<unknown>(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR'])

async function assembleIn(backend: Assemblable, [cache = '', ...others]: readonly string[], signal: AbortSignal): Promise<AssembledImage> {
  try {
    return await assembleImage(backend, cache, signal)
  } catch (error) {
    if (others.length === 0 || !notMine.has(errorCode(error))) throw error
    return await assembleIn(backend, others, signal)
  }
}

/** Without what is no backend: a page about them. */
async function directoriesOf(backends: string): Promise<string[]> {
  const found = []
  for (const name of (await readdir(backends)).toSorted()) {
    const directory = join(backends, name)
    if ((await readFile(join(directory, 'backend.json')).catch(nullWhenAbsent)) !== null) found.push(directory)
  }
  return found
}

async function entryOf(directory: string, digest: Digest): Promise<Entry> {
  const about = BackendFile.parse(JSON.parse(await readFile(join(directory, 'backend.json'), 'utf8')))
  return { ...about, uri: formatBuiltinUri({ name: about.name, digest }) }
}

function nullWhenAbsent(error: unknown): null {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null
  throw error
}
