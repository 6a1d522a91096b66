// Reads one entry of a model gallery: Muster's own format (`config`), or LocalAI's (`url`, `overrides`, `config_file`, `files`
// with other URIs, `variants`). Presentation never refuses an entry of LocalAI's format: it is cut or dropped.
import { FleetError } from '@muster/protocol'
import { isObject, readYaml, type YamlObject } from '../gallery/yaml-value.ts'
import { archiveKind, convertFileUri } from './file-uri.pure.ts'
import { isMapping } from './merge-overrides.pure.ts'

/** `entry`: the input of ModelGalleryEntry. */
export type PreparedEntry = Readonly<{ entry: Readonly<Record<string, unknown>> } | { problem: string }>

class EntryProblem extends Error {}

const own = ['url', 'overrides', 'config_file'] as const

export function readModelEntry(value: unknown): PreparedEntry {
  if (!isObject(value)) return { problem: 'an entry is a mapping with a name' }
  const given = own.filter((key) => (value[key] ?? null) !== null)
  const hasConfig = (value['config'] ?? null) !== null
  if (hasConfig && given.length > 0)
    return { problem: `it has config, which is Muster's format, and ${given.join(', ')}, which is LocalAI's; use one` }
  if (hasConfig || (given.length === 0 && (value['files'] ?? null) === null)) return { entry: value }
  try {
    return { entry: fromLocalAi(value) }
  } catch (error) {
    if (error instanceof EntryProblem) return { problem: error.message }
    if (error instanceof FleetError) return { problem: error.message.replace(/^cannot read /, '') }
    throw error
  }
}

function fromLocalAi(value: YamlObject): Record<string, unknown> {
  return {
    name: nameOf(value['name']),
    description: textOf(value['description'], 8192),
    license: textOf(value['license'], 256),
    icon: textOf(value['icon'], Infinity).length > 2048 ? '' : textOf(value['icon'], 2048),
    tags: textsOf(value['tags'], 128),
    urls: textsOf(value['urls'], 4096),
    files: listOf(value, 'files').map((file, index) => fileOf(file, `files.${index}`)),
    localai: {
      base: textOf(value['url'], Infinity) || null,
      config: readConfigFile(value['config_file']),
      overrides: mappingOf(value, 'overrides'),
    },
    variants: listOf(value, 'variants').flatMap((each) =>
      isObject(each) && typeof each['model'] === 'string' ? [nameOf(each['model'])] : [],
    ),
    size_bytes: parseSize(textOf(value['size'], 64)),
  }
}

/** Names are compared as bytes, so one form of equal names is kept. */
const nameOf = (value: unknown): unknown =>
  typeof value === 'string' ? value.normalize('NFC') : typeof value === 'number' ? String(value) : (value ?? undefined)

const textOf = (value: unknown, longest: number): string => (typeof value === 'string' ? value : '').slice(0, longest)

const textsOf = (value: unknown, longest: number): string[] =>
  (Array.isArray(value) ? value : []).filter((each): each is string => typeof each === 'string' && each.length <= longest).slice(0, 256)

function listOf(value: YamlObject, key: string): readonly unknown[] {
  const list: unknown = value[key] ?? []
  if (!Array.isArray(list)) throw new EntryProblem(`${key}: expected a list`)
  return list
}

function mappingOf(value: YamlObject, key: string): Readonly<Record<string, unknown>> {
  const mapping: unknown = value[key] ?? {}
  if (!isMapping(mapping)) throw new EntryProblem(`${key}: expected a mapping`)
  return mapping
}

/** A file of an entry, a base file or a request; `at` is its place in errors. */
export function fileOf(file: unknown, at: string): Record<string, unknown> {
  if (!isMapping(file)) throw new EntryProblem(`${at}: expected a mapping`)
  const { filename, uri, sha256 } = file
  if (typeof uri !== 'string' || typeof filename !== 'string') throw new EntryProblem(`${at}: a file has a filename and a uri`)
  const converted = convertFileUri(uri)
  if ('problem' in converted) throw new EntryProblem(`${at}.uri: ${converted.problem}`)
  const kind = archiveKind(filename)
  if (kind === 'unsupported') throw new EntryProblem(`${at}: ${filename} is an archive of a kind that is not unpacked; use tar or zip`)
  // An image holds its files in a layer, which is an archive.
  const isPacked = kind === 'archive' || uri.startsWith('oci:')
  return {
    uri: converted.uri,
    filename: filename.normalize('NFC'),
    // Empty: not checked.
    ...(typeof sha256 === 'string' && sha256 !== '' ? { sha256: sha256.toLowerCase() } : {}),
    ...(isPacked ? { unpack: true } : {}),
  }
}

const configLimits = { maxBytes: 256 * 1024, maxValues: 20_000, maxDepth: 24, scalars: 'typed' } as const

/** Text that holds YAML, or a mapping. */
export function readConfigFile(value: unknown): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {}
  const config: unknown = typeof value === 'string' ? (readYaml(value, 'config_file', configLimits) ?? {}) : value
  if (!isMapping(config)) throw new EntryProblem('config_file: expected a mapping, or text that holds one')
  return config
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
}

/** `14.5GB` → 14,500,000,000; null for another text. */
export function parseSize(text: string): number | null {
  const [, amount, unit = ''] = /^\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?i?B?)\s*$/i.exec(text) ?? []
  const factor = units[unit.toUpperCase()] ?? units[`${unit.toUpperCase()}B`]
  return amount === undefined || factor === undefined ? null : Math.round(Number(amount) * factor)
}
