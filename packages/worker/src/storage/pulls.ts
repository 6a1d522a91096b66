// Which blobs the installs want that have begun and are not at their end. While one runs, it holds them (holds.ts); this
// is for the time when its process is gone, or when it waits for another try. Each is one small file named after the tree
// that it is going to be. Not synced: what a power cut takes of it costs bytes, and nothing else.
import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId, type Clock } from '@muster/host'
import { Digest } from '@muster/protocol'
import { z } from 'zod'
import { fileSize } from './fetch-blob.ts'
import { partialKeptMs, type Layout } from './layout.ts'

export interface Pulls {
  begin(tree: Digest, blobs: readonly Digest[]): Promise<void>
  /** At its end, or given up. */
  end(tree: Digest): Promise<void>
  /** There is too little room for this one and for what others fetched, who may come back or not. */
  endOthers(tree: Digest): Promise<void>
  /** Also drops what is done, and what nobody came back to. */
  neededBlobs(): Promise<ReadonlySet<Digest>>
}

const BlobList = z.array(Digest)

export function createPulls({ layout, clock }: { readonly layout: Layout; readonly clock: Clock }): Pulls {
  const end = (tree: Digest): Promise<void> => rm(layout.pull(tree), { force: true })
  const read = async (tree: Digest): Promise<Digest[]> => {
    const path = layout.pull(tree)
    const found = await stat(path).catch(() => null)
    // A tree says itself what it was made of.
    if (found !== null && clock.now() - found.mtimeMs < partialKeptMs && (await fileSize(layout.tree(tree))) === null) {
      const text = readFile(path, 'utf8')
      const blobs = BlobList.safeParse(await text.then(JSON.parse).catch(() => null))
      if (blobs.success) return blobs.data
    }
    await end(tree)
    return []
  }
  const begun = async (): Promise<Digest[]> =>
    (await readdir(layout.pulls)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  return {
    end,
    async endOthers(tree) {
      for (const other of await begun()) if (other !== tree) await end(other)
    },
    async begin(tree, blobs) {
      const temporary = join(layout.staging, newId())
      await writeFile(temporary, JSON.stringify(blobs), { mode: 0o600 })
      await rename(temporary, layout.pull(tree))
    },
    async neededBlobs() {
      return new Set((await Promise.all((await begun()).map(read))).flat())
    },
  }
}
