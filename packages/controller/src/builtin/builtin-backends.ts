// Built-in backends: each directory of `backends/`. A backend without packages is packed at each start; one with packages is
// offered once it is assembled, which runs after the start.
import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorCode, type Log } from '@muster/host'
import { BackendName, type Digest } from '@muster/protocol'
import { formatBuiltinUri, packDirectory, type ImageLayout } from '@muster/source'
import { z } from 'zod'
import { assembleImage, findAssembled, type AssembledImage } from './assembled-images.ts'
import { readAssembly, type AssemblyInput } from './assemble-backend.ts'

/** The fields of backend.json that the gallery lists. */
const BackendFile = z.object({
  name: BackendName,
  version: z.string().max(256).default(''),
  description: z.string().optional(),
  license: z.string().optional(),
  tags: z.array(z.string()).optional(),
})
type Entry = z.infer<typeof BackendFile> & { readonly uri: string }

export interface BuiltinBackends {
  /** Gallery entries, by name. */
  entries(): Entry[]
  /** Blobs of the backends that are packed at each start. */
  readonly packed: readonly Digest[]
  /** Layouts of the assembled backends. */
  layouts(): readonly ImageLayout[]
  /** Not assembled yet. */
  missing(): readonly string[]
  /** Assembles the missing backends. A failure is logged, and the backend is not offered. */
  complete(deps: { readonly signal: AbortSignal; readonly log: Log }): Promise<void>
}

export interface BackendDirectories {
  readonly backends: string
  /** Receives the packed images. */
  readonly layout: ImageLayout
  /** Caches of assembled backends; the first writable one is used. Without any they are not offered. */
  readonly caches: readonly string[]
}

export async function openBuiltinBackends({ backends, layout, caches }: BackendDirectories): Promise<BuiltinBackends> {
  const entries: Entry[] = []
  const packed: Digest[] = []
  const layouts: ImageLayout[] = []
  const missing: AssemblyInput[] = []
  const add = async (backend: AssemblyInput, made: AssembledImage): Promise<void> => {
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
          log.info('backend assembled', { directory, ms: Math.round(performance.now() - from) })
        } catch (error) {
          if (!signal.aborted) log.warn('cannot assemble backend; it is not offered', { directory, error })
        }
      }
    },
  }
}

async function findIn(backend: AssemblyInput, caches: readonly string[]): Promise<AssembledImage | null> {
  for (const cache of caches) {
    const found = await findAssembled(backend, cache)
    if (found !== null) return found
  }
  return null
}

/** A clone may belong to another user than the controller. */
const notWritable = new Set<unknown>(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR'])

async function assembleIn(
  backend: AssemblyInput,
  [cache = '', ...others]: readonly string[],
  signal: AbortSignal,
): Promise<AssembledImage> {
  try {
    return await assembleImage(backend, cache, signal)
  } catch (error) {
    if (others.length === 0 || !notWritable.has(errorCode(error))) throw error
    return await assembleIn(backend, others, signal)
  }
}

/** Skips entries without a backend.json. */
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
