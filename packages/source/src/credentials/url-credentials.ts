// Credentials by URL prefix, for private galleries, registries, archives and model files. The file is read again when it changes,
// so that a new secret needs no restart. A file that became unusable is logged, and its last usable content stays in effect.
import { readFileSync, statSync } from 'node:fs'
import { closestWord, errorCode, findModeProblem, Secret, SettingsError, type Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { isMap, LineCounter, parseDocument, type Document } from 'yaml'
import type { z } from 'zod'
import { type CredentialEntry, CredentialsFile, findEntry, headerOf, type SecretPlace } from './credentials-file.pure.ts'

export type CredentialForUrl = Readonly<{
  /** In lower case. */
  header: string
  value: Secret
  /** For token services of registries; null when the entry has another form. */
  basic: Readonly<{ username: string; password: Secret }> | null
}>

/** The credential for a URL; null when the file has none. Throws a FleetError when its secret cannot be read. */
export type UrlCredentials = (url: URL) => CredentialForUrl | null

export const noUrlCredentials: UrlCredentials = () => null

/** Part of the error of a server that refuses access. */
export const howToAddCredentials = (url: URL): string => `give it a login in the file of --credentials, under a prefix of ${url.origin}`

const largestFile = 1024 * 1024
const largestSecret = 65_536

export interface UrlCredentialsDeps {
  readonly path: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
}

export function createUrlCredentials({ path, env, log }: UrlCredentialsDeps): UrlCredentials {
  let entries: readonly CredentialEntry[] = []
  let seen: string | null = null
  const refresh = (): void => {
    const now = signOf(path)
    if (now === seen) return
    // Also after a failure: the same content is not read and logged again.
    seen = now
    try {
      entries = readCredentialsFile(path)
      log.info('credentials file read', { path, entries: entries.length })
    } catch (error) {
      const reason = error instanceof SettingsError ? error.message : `it cannot be read (${String(errorCode(error) ?? 'unknown error')})`
      log.error('credentials file is not usable; the earlier content stays in effect', { path, reason })
    }
  }
  return (url) => {
    refresh()
    const entry = findEntry(entries, url)
    if (entry === null) return null
    const { name, secret, render, username } = headerOf(entry)
    const value = readSecret(secret, { prefix: entry.prefix, env })
    const basic = username === null ? null : { username, password: new Secret(value) }
    return { header: name, value: new Secret(render(value)), basic }
  }
}

/** Changes with the content of the file, also within a second and by a rename. */
function signOf(path: string): string {
  try {
    const { ino, mode, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true })
    return [ino, mode, size, mtimeNs, ctimeNs].join(' ')
  } catch (error) {
    return String(errorCode(error) ?? 'unknown error')
  }
}

/** Throws a SettingsError that names the line, and never the content. */
export function readCredentialsFile(path: string): readonly CredentialEntry[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
    const problem = findModeProblem(path)
    if (problem !== null) throw new SettingsError(problem)
  } catch (error) {
    if (error instanceof SettingsError) throw error
    throw new SettingsError(`cannot read "${path}" (${String(errorCode(error) ?? 'unknown error')})`, { cause: error })
  }
  if (text.length > largestFile) throw new SettingsError(`"${path}" is larger than ${largestFile} bytes`)
  return parseCredentials(text, path)
}

export function parseCredentials(content: string, path: string): readonly CredentialEntry[] {
  const lines = new LineCounter()
  const document = parseDocument(content, { lineCounter: lines, prettyErrors: false })
  const at = (offset: number): string => `${path}:${lines.linePos(offset).line}`
  const [error] = document.errors
  if (error !== undefined) throw new SettingsError(`${at(error.pos[0])}: this is not YAML (${error.code})`)
  const parsed = CredentialsFile.safeParse(valueOf(document, path))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  if (issue === undefined) throw new SettingsError(`${path}: it is not a list of credentials`)
  throw new SettingsError(`${at(offsetOf(document, issue))}: ${describeIssue(issue)}`)
}

function valueOf(document: Document.Parsed, path: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 })
  } catch {
    throw new SettingsError(`${path}: aliases (*name) are not supported; write each value out`)
  }
}

function describeIssue(issue: z.core.$ZodIssue): string {
  const where = issue.path.filter((part) => typeof part === 'string').join('.')
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const known = knownKeys[where] ?? knownKeys['']
    return `unknown key "${key.slice(0, 60)}"; the closest known key is ${closestWord(key, new Set(known))}`
  }
  const problem =
    issue.code === 'custom' || issue.code === 'invalid_format' || issue.code === 'too_small' || issue.code === 'too_big'
      ? issue.message
      : 'it is missing, or of another kind than expected'
  return where === '' ? `an entry needs a prefix and one of basic, bearer and header: ${problem}` : `${where}: ${problem}`
}

const knownKeys: Readonly<Record<string, readonly string[]>> = {
  '': ['prefix', 'basic', 'bearer', 'header'],
  basic: ['username', 'password', 'password_file', 'password_env'],
  bearer: ['token', 'token_file', 'token_env'],
  header: ['name', 'value', 'value_file', 'value_env'],
}

/** The place of the nearest part of the document that exists. */
function offsetOf(document: Document.Parsed, issue: z.core.$ZodIssue): number {
  const key = issue.code === 'unrecognized_keys' ? issue.keys[0] : undefined
  for (let length = issue.path.length; length >= 0; length -= 1) {
    const path = issue.path.slice(0, length)
    const node: unknown = path.length === 0 ? document.contents : document.getIn(path, true)
    if (key !== undefined && isMap(node)) {
      const pair = node.items.find(({ key: name }) => String(name) === key)
      const found = rangeStart(pair?.key)
      if (found !== null) return found
    }
    const start = rangeStart(node)
    if (start !== null) return start
  }
  return 0
}

function rangeStart(node: unknown): number | null {
  if (typeof node !== 'object' || node === null || !('range' in node) || !Array.isArray(node.range)) return null
  const [start]: unknown[] = node.range
  return typeof start === 'number' ? start : null
}

/** A secret in a file or in the environment is read at each use. */
function readSecret({ kind, at }: SecretPlace, { prefix, env }: { prefix: string; env: UrlCredentialsDeps['env'] }): string {
  const found = kind === 'text' ? at : kind === 'env' ? (env[at] ?? '') : readSecretFile(at, prefix)
  if (found !== '' && found.length <= largestSecret && !/[\p{Cc}]/u.test(found)) return found
  throw unusable(
    prefix,
    kind === 'env'
      ? `the environment variable ${at} is not set, or has control characters`
      : `the file ${at} is empty, too long, or has control characters`,
  )
}

function readSecretFile(path: string, prefix: string): string {
  let text: string
  let problem: string | null
  try {
    text = readFileSync(path, 'utf8')
    problem = findModeProblem(path)
  } catch (error) {
    throw unusable(prefix, `the file ${path} cannot be read (${String(errorCode(error) ?? 'unknown error')})`)
  }
  if (problem !== null) throw unusable(prefix, problem)
  return text.replace(/[\r\n]+$/, '')
}

const unusable = (prefix: string, why: string): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `the credentials for ${prefix} are not usable: ${why}` })
