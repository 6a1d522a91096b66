// The cache of assembled backends: directories for inspection, and the images that are served. Shared by all controllers of a
// clone and renewed when an input changes.
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { errorCode, isTemporary, newId, writeFileAtomic } from '@muster/host'
import { Digest } from '@muster/protocol'
import { openLayout, packPlatforms, platformOf, type ImageLayout } from '@muster/source'
import { z } from 'zod'
import { assembleBackend, type AssemblyInput } from './assemble-backend.ts'
import { collectBlobs } from './collect-blobs.ts'

export interface AssembledImage {
  readonly root: Digest
  readonly layout: ImageLayout
}

const AssemblyRecord = z.object({ key: z.string(), root: Digest, blobs: z.array(Digest) })

/** Younger temporary directories may belong to another controller. */
const leftoverAgeMs = 3_600_000

const nameOf = ({ directory }: AssemblyInput): string => basename(directory)
const recordOf = (backend: AssemblyInput, cache: string): string => join(cache, `${nameOf(backend)}.json`)
const imagesOf = (backend: AssemblyInput, cache: string): string => join(cache, 'images', nameOf(backend))

/** The directory of a platform: `llama-linux-x64`. */
export const assembledDirectory = (backend: AssemblyInput, cache: string, platform: string): string =>
  join(cache, `${nameOf(backend)}-${platform}`)

/** Null when there is no image, or its inputs have changed. */
export async function findAssembled(backend: AssemblyInput, cache: string): Promise<AssembledImage | null> {
  const text = await readFile(recordOf(backend, cache), 'utf8').catch(() => '{}')
  const { data: made } = AssemblyRecord.safeParse(parseText(text))
  if (made === undefined || made.key !== backend.key) return null
  const layout = await openLayout(imagesOf(backend, cache))
  const paths = [
    ...made.blobs.map((digest) => layout.pathOf(digest)),
    ...backend.platforms.map(({ name }) => assembledDirectory(backend, cache, name)),
  ]
  const isThere = await Promise.all(
    paths.map((path) =>
      stat(path).then(
        () => true,
        () => false,
      ),
    ),
  )
  return isThere.every(Boolean) ? { root: made.root, layout } : null
}

/** Safe to run in several controllers at once: their results are identical. */
export async function assembleImage(backend: AssemblyInput, cache: string, signal: AbortSignal): Promise<AssembledImage> {
  const work = join(cache, `.${newId()}.tmp`)
  await mkdir(work, { recursive: true })
  try {
    await assembleBackend(backend, (platform) => join(work, platform))
    signal.throwIfAborted()
    const parts = backend.platforms.map(({ name }) => ({ directory: join(work, name), platform: ociPlatform(name) }))
    const { root, manifests, blobs, layout } = await packPlatforms(parts, {
      ...{ layout: imagesOf(backend, cache), refName: nameOf(backend), signal },
    })
    for (const { name } of backend.platforms) await replace(join(work, name), assembledDirectory(backend, cache, name))
    const digests = [root, ...manifests, ...blobs].map(({ digest }) => digest)
    await collectBlobs(layout.directory, new Set(digests))
    const made: z.infer<typeof AssemblyRecord> = { key: backend.key, root: root.digest, blobs: digests }
    await writeFileAtomic(recordOf(backend, cache), JSON.stringify(made), { mode: 0o644 })
    return { root: root.digest, layout }
  } finally {
    await rm(work, { recursive: true, force: true })
    await removeLeftovers(cache)
  }
}

function ociPlatform(name: string): { os: string; architecture: string } {
  const [platform = '', arch = ''] = name.split('-')
  const { os, arch: architecture } = platformOf({ platform, arch })
  return { os, architecture }
}

/** A directory cannot replace a non-empty one directly. Of two concurrent calls the last one wins. */
async function replace(from: string, to: string): Promise<void> {
  const old = `${from}.old`
  await rename(to, old).catch(unlessAbsent)
  await rename(from, to).catch((error: unknown) => {
    if (errorCode(error) !== 'ENOTEMPTY' && errorCode(error) !== 'EEXIST') throw error
  })
}

async function removeLeftovers(cache: string): Promise<void> {
  for (const name of (await readdir(cache)).filter(isTemporary)) {
    const found = await stat(join(cache, name)).catch(() => null)
    if (found !== null && Date.now() - found.mtimeMs > leftoverAgeMs) await rm(join(cache, name), { recursive: true, force: true })
  }
}

function unlessAbsent(error: unknown): void {
  if (errorCode(error) !== 'ENOENT') throw error
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
