// Reading what is kept: verified content by its digest.
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode } from '@muster/host'
import { Digest, type StoredFile } from '@muster/protocol'
import type { ModelLayout } from './model-layout.ts'

/** As many as fit into an inventory. */
const mostListed = 65_536

export async function listContents({ blobs }: ModelLayout): Promise<readonly StoredFile[]> {
  const digests = (await readdir(blobs)).toSorted().flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  const sized = digests.slice(0, mostListed).map(async (digest): Promise<StoredFile[]> => {
    const found = await stat(join(blobs, digest.slice('sha256:'.length))).catch(() => null)
    // Collected since it was listed.
    return found === null ? [] : [{ digest, size: found.size }]
  })
  return (await Promise.all(sized)).flat()
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
