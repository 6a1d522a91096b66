// Built-in models: each directory of `models/` with a `model.yaml`, a model gallery entry whose files are beside it. The files
// are served in place, by the sha256 of the entry.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@muster/host'
import { ConfigFile, Digest, ModelGalleryEntry } from '@muster/protocol'
import { formatBuiltinUri } from '@muster/source'
import { parse } from 'yaml'
import { z } from 'zod'

export interface BuiltinModels {
  readonly entries: readonly ModelGalleryEntry[]
  /** Null when no model has this file. */
  pathOf(digest: Digest): string | null
}

const ModelFile = ModelGalleryEntry.extend({ files: z.array(ConfigFile.pick({ filename: true, sha256: true }).required()).min(1) })

export async function readBuiltinModels(directory: string): Promise<BuiltinModels> {
  const entries: ModelGalleryEntry[] = []
  const paths = new Map<Digest, string>()
  for (const folder of (await readdir(directory).catch(ignoreMissing)).toSorted()) {
    const text = await readFile(join(directory, folder, 'model.yaml'), 'utf8').catch(ignoreMissing)
    if (typeof text !== 'string') continue
    const model = ModelFile.parse(parse(text))
    const files = model.files.map(({ filename, sha256 }) => ({ filename, sha256, digest: Digest.parse(`sha256:${sha256}`) }))
    for (const { filename, digest } of files) {
      const path = join(directory, folder, filename)
      await stat(path) // A missing file fails the start, not a download.
      paths.set(digest, path)
    }
    const named = files.map(({ digest, ...file }) => ({ uri: formatBuiltinUri({ name: model.name, digest }), ...file }))
    entries.push({ ...model, files: named })
  }
  return { entries, pathOf: (digest) => paths.get(digest) ?? null }
}

/** For entries that are no directory, or without a model.yaml. */
function ignoreMissing(error: unknown): [] {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return []
  throw error
}
