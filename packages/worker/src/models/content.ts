// Reading what is kept: verified content by its digest.
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode } from '@muster/host'
import { Digest, type StoredFile } from '@muster/protocol'
import type { ModelLayout } from './model-layout.ts'

/** As many as fit into a message of the bus, with room for the rest of it: some 400 kB. */
const mostListed = 4096

export async function listContents({ blobs }: ModelLayout): Promise<readonly StoredFile[]> {
  const digests = (await readdir(blobs)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  const sized = digests.map(async (digest): Promise<StoredFile[]> => {
    const found = await stat(join(blobs, digest.slice('sha256:'.length))).catch(() => null)
    // Collected since it was listed.
    return found === null ? [] : [{ digest, size: found.size }]
  })
  const found = (await Promise.all(sized)).flat()
  // Where not all can be told, the largest are: they are worth the most to others.
  const told = found.length <= mostListed ? found : found.toSorted((a, b) => b.size - a.size).slice(0, mostListed)
  return told.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))
}

/** What is open stays readable, also when it is removed meanwhile. */
export async function openContent(
  path: string,
  range: { start: number; end: number } | null,
): Promise<{ size: number; stream: Readable } | null> {
  try {
    const file = await open(path, 'r')
    const { size } = await file.stat()
    return { size, stream: file.createReadStream(range ?? {}) }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
}
