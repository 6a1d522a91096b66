// Reads YAML and JSON of a foreign directory as plain values, bounded. A file that cannot be read is a loss with its reason.
import { errorMessage, parseJson } from '@muster/host'
import { readYaml, type YamlLimits } from '@muster/source'
import { type DirectoryFiles, maxTextBytes } from './directory-files.ts'
import { isMapping, type Loss, type Mapping } from './site.ts'

export const yamlLimits: YamlLimits = { maxBytes: maxTextBytes, maxValues: 200_000, maxDepth: 32, scalars: 'typed' }

export interface Reading {
  readonly files: DirectoryFiles
  readonly lose: (loss: Loss) => void
}

/** Null when the file is missing or cannot be read. */
export async function readValue({ files, lose }: Reading, path: string): Promise<unknown> {
  try {
    const text = await files.readText(path)
    if (text === null) return null
    return path.endsWith('.json') ? parseJson(text) : readYaml(text, path, yamlLimits)
  } catch (error) {
    lose({ about: path, key: '', message: `it cannot be read: ${errorMessage(error)}` })
    return null
  }
}

export async function readObject(reading: Reading, path: string): Promise<Mapping> {
  const value = await readValue(reading, path)
  if (isMapping(value)) return value
  if (value !== null) reading.lose({ about: path, key: '', message: 'it is not a JSON object' })
  return {}
}
