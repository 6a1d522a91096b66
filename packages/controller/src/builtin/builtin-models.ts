// Models that come with Muster: each directory of `models/` with a `model.yaml`, which is an entry of a model gallery but
// that its files lie beside it. They are served from where they are, by the sha256 that the entry names.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@muster/host'
import { ConfigFile, Digest, ModelGalleryEntry } from '@muster/protocol'
import { formatBuiltinUri } from '@muster/source'
import { parse } from 'yaml'
import { z } from 'zod'

export interface BuiltinModels {
  readonly entries: readonly ModelGalleryEntry[]
  /** Null when it is of none of them. */
  pathOf(digest: Digest): string | null
}

const ModelFile = ModelGalleryEntry.extend({ files: z.array(ConfigFile.omit({ uri: true }).required()).min(1) })

export async function readBuiltinModels(directory: string): Promise<BuiltinModels> {
  const entries: ModelGalleryEntry[] = []
  const paths = new Map<Digest, string>()
  for (const folder of (await readdir(directory).catch(noneWhenAbsent)).toSorted()) {
    const text = await readFile(join(directory, folder, 'model.yaml'), 'utf8').catch(noneWhenAbsent)
    if (typeof text !== 'string') continue
    const model = ModelFile.parse(parse(text))
    const files = model.files.map(({ filename, sha256 }) => ({ filename, sha256, digest: Digest.parse(`sha256:${sha256}`) }))
    for (const { filename, digest } of files) {
      const path = join(directory, folder, filename)
      await stat(path) // missing is better known now than when a node asks
      paths.set(digest, path)
    }
    const named = files.map(({ digest, ...file }) => ({ uri: formatBuiltinUri({ name: model.name, digest }), ...file }))
    entries.push({ ...model, files: named })
  }
  return { entries, pathOf: (digest) => paths.get(digest) ?? null }
}

/** A page about models, or no directory at all. */
function noneWhenAbsent(error: unknown): [] {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return []
  throw error
}
