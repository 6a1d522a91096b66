// Reads a LocalAI models directory: configurations with the records of their installation, files, templates and the listings of
// repositories.
import { basename } from 'node:path'
import { errorMessage } from '@muster/host'
import { type Reading, readValue } from './directory-values.ts'
import {
  foldersOf,
  isMapping,
  listOf,
  type LocalFiles,
  type Mapping,
  readRecordedFiles,
  type RepositoryListing,
  type SiteModel,
  textOf,
} from './site.ts'

const maxModels = 10_000

export interface ModelsReading extends Reading {
  /** The folder of the models, from the root of the files; empty when it is the root. */
  readonly folder: string
}

/** In a path of the directory, for reports. */
const below = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** Hidden files, unfinished downloads and the caches of Hugging Face libraries are no files of models. */
const isSkipped = (name: string): boolean => name.startsWith('.') || name.endsWith('.partial') || name.startsWith('models--')

export async function readLocalFiles({ files, folder, lose }: ModelsReading): Promise<LocalFiles> {
  const { sizes, refused } = await files.walk(folder, isSkipped)
  for (const path of refused)
    lose({ about: below(folder, path), key: '', message: 'it is a link out of the directory, or broken, and not followed' })
  const templates = new Map<string, string>()
  for (const name of [...sizes.keys()].filter((each) => each.endsWith('.tmpl'))) {
    try {
      templates.set(name.slice(0, -'.tmpl'.length), (await files.readText(below(folder, name))) ?? '')
    } catch (error) {
      lose({ about: below(folder, name), key: '', message: `it cannot be read: ${errorMessage(error)}` })
    }
  }
  const listings = await readListings({ files, folder, lose })
  return { sizes, folders: foldersOf(sizes.keys()), listings, templates, locate: (filename) => files.locate(below(folder, filename)) }
}

const maxListings = 1000

/** `manifest.json` of each repository that LocalAI fetched as a whole. */
async function readListings(reading: ModelsReading): Promise<Map<string, RepositoryListing>> {
  const store = below(reading.folder, '.artifacts/huggingface')
  const listings = new Map<string, RepositoryListing>()
  for (const key of (await reading.files.list(store)).slice(0, maxListings)) {
    const manifest = await readValue(reading, `${store}/${key}/manifest.json`)
    const { artifact, files } = isMapping(manifest) ? manifest : {}
    const { source, resolved } = isMapping(artifact) ? artifact : {}
    const repository = textOf(isMapping(source) ? source['repo'] : null)
    const commit = textOf(isMapping(resolved) ? resolved['revision'] : null)
    if (repository !== '' && /^[0-9a-f]{7,64}$/.test(commit)) listings.set(repository, { commit, files: listOf(files).flatMap(listedFile) })
  }
  return listings
}

function listedFile(value: unknown): RepositoryListing['files'][number][] {
  const { path, size, sha256 } = isMapping(value) ? value : {}
  if (typeof path !== 'string' || path === '') return []
  return [{ path, size: Number(size) || 0, sha256: /^[0-9a-f]{64}$/.test(textOf(sha256)) ? textOf(sha256) : null }]
}

const isModelFile = (name: string): boolean => /\.ya?ml$/.test(name) && !name.startsWith('.')

export async function readModels(reading: ModelsReading): Promise<SiteModel[]> {
  const { files, folder, lose } = reading
  const byName = new Map<string, SiteModel>()
  for (const name of (await files.list(folder)).filter(isModelFile)) {
    const from = below(folder, name)
    const value = await readValue(reading, from)
    const record = await readValue(reading, below(folder, `._gallery_${name.replace(/\.ya?ml$/, '')}.yaml`))
    const installed = isMapping(record) ? readRecordedFiles(record['files']) : []
    for (const source of modelsIn(value, from, lose)) {
      const model = textOf(source['name'])
      const before = byName.get(model)
      // LocalAI uses the last file of a name.
      if (before !== undefined)
        lose({ about: before.from, key: '', message: `${from} has the same name ${model}, and LocalAI uses the last` })
      if (byName.size < maxModels) byName.set(model, { from, source, files: installed })
    }
  }
  return [...byName.values()]
}

/** A file has one model, or a list of them. */
function modelsIn(value: unknown, from: string, lose: Reading['lose']): Mapping[] {
  if (value === null) return []
  const all = Array.isArray(value) ? value : [value]
  return all.flatMap((each: unknown): Mapping[] => {
    if (isMapping(each) && textOf(each['name']) !== '') return [each]
    lose({ about: from, key: '', message: isMapping(each) ? 'it has no name, so LocalAI does not serve it either' : 'it is not a model' })
    return []
  })
}

/** Caches, and files that no model names. */
export async function mentionOtherFiles(
  { files, folder, lose }: ModelsReading,
  models: readonly SiteModel[],
  sizes: LocalFiles['sizes'],
): Promise<void> {
  for (const name of await files.list(folder))
    if (name.startsWith('models--'))
      lose({ about: below(folder, name), key: '', message: 'a cache of a Hugging Face library; not imported' })
  const text = JSON.stringify(models.map(({ source, files: recorded }) => [source, recorded]))
  const loose = [...sizes.keys()].filter((name) => /\.(?:gguf|bin|safetensors|onnx|ggml)$/i.test(name) && !text.includes(basename(name)))
  for (const name of loose.slice(0, 1000))
    lose({ about: below(folder, name), key: '', message: 'no model names this file; write a configuration for it, then import again' })
}
