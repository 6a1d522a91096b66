// A model's configuration as somebody wrote it → what is kept. Whatever is wrong is refused with the key, its line and,
// where a key is unknown, the closest known one.
import { closestWord } from '@muster/host'
import { ConfigFile, ModelConfig, Scheduling, type ModelName } from '@muster/protocol'
import type { z } from 'zod'
import { readConfigText, type ConfigFormat, type ConfigText } from './config-text.ts'

export interface ConfigProblem {
  readonly key: string
  readonly line: number | null
  readonly closest?: string
}

export class InvalidConfig extends Error {
  readonly problem: ConfigProblem

  constructor(message: string, problem: ConfigProblem) {
    super(message)
    this.name = 'InvalidConfig'
    this.problem = problem
  }
}

/**
 * `name`: as the path says, and a name in the text must be the same; null: the text has to say it.
 * Throws InvalidConfig, or UnreadableConfig when it can't be read at all.
 */
export function parseConfig(text: string, { name, format }: { name: ModelName | null; format: ConfigFormat }): ModelConfig {
  const read = readConfigText(text, format)
  if (typeof read.value !== 'object' || read.value === null || Array.isArray(read.value))
    throw new InvalidConfig('a model configuration is a mapping of keys and values', { key: '', line: null })
  return checkConfig(name === null ? read.value : { name, ...read.value }, { name, lineOf: read.lineOf })
}

/** The same for values that are there already, as of a gallery. */
export function checkConfig(value: object, { name, lineOf }: { name: ModelName | null; lineOf: ConfigText['lineOf'] }): ModelConfig {
  const parsed = ModelConfig.safeParse(value)
  if (!parsed.success) throw explain(parsed.error, lineOf)
  if (name !== null && parsed.data.name !== name)
    throw invalid(
      `the name ${JSON.stringify(parsed.data.name)} differs from the one in the path, ${JSON.stringify(name)}`,
      ['name'],
      lineOf,
    )
  const clash = clashing(parsed.data.files.map(({ filename }) => filename))
  if (clash !== null) throw invalid(clash.message, ['files', clash.index, 'filename'], lineOf)
  return parsed.data
}

/** The first of them: the others are often its consequences. */
function explain(error: z.ZodError, lineOf: ConfigText['lineOf']): InvalidConfig {
  const unknown = error.issues.find((issue) => issue.code === 'unrecognized_keys')
  const issue = unknown ?? error.issues[0]
  if (issue?.code !== 'unrecognized_keys') return invalid(issue?.message ?? 'it is not valid', issue?.path ?? [], lineOf)
  const key = issue.keys[0] ?? ''
  const path = [...issue.path, key]
  const closest = closestWord(key, knownAt(issue.path)) ?? ''
  const line = lineOf(path)
  const message = `${at(line)}unknown key ${JSON.stringify(path.join('.'))}; the closest known key is ${closest}`
  return new InvalidConfig(message, { key, line, closest })
}

function invalid(message: string, path: readonly PropertyKey[], lineOf: ConfigText['lineOf']): InvalidConfig {
  const key = path.map(String).join('.')
  const line = lineOf(path)
  return new InvalidConfig(`${at(line)}${key === '' ? '' : `${key}: `}${message}`, { key, line })
}

const at = (line: number | null): string => (line === null ? '' : `line ${line}: `)

function knownAt([first]: readonly PropertyKey[]): string[] {
  const schema = first === 'files' ? ConfigFile : first === 'scheduling' ? Scheduling : ModelConfig
  return Object.keys(schema.shape)
}

/** Two files at one place, or one where another needs a folder. */
function clashing(names: readonly string[]): { index: number; message: string } | null {
  const files = new Set<string>()
  const folders = new Set<string>()
  for (const [index, name] of names.entries()) {
    if (files.has(name)) return { index, message: `two files are called ${JSON.stringify(name)}` }
    const above = name.split('/').flatMap((_, depth, parts) => (depth === 0 ? [] : [parts.slice(0, depth).join('/')]))
    if (folders.has(name) || above.some((folder) => files.has(folder)))
      return { index, message: `${JSON.stringify(name)} is a file and the folder of another` }
    files.add(name)
    for (const folder of above) folders.add(folder)
  }
  return null
}
