// The server and the key of client commands, and the source of each for messages. A key never comes from a flag: all users
// of a machine can read arguments.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, Secret, errorMessage } from '@muster/host'
import { CliError, usageError } from '../cli-error.ts'

export interface Target {
  readonly url: URL
  /** `--url`, `MUSTER_URL`, or the file it was read from. */
  readonly urlFrom: string
  readonly key: Secret | null
  /** The source of the key; without a key, the file that would hold it. */
  readonly keyFrom: string
  /** The file holds a key, but for another server. */
  readonly isKeyWithheld: boolean
}

export interface TargetOptions {
  readonly url: string | undefined
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export function resolveTarget(options: TargetOptions): Target {
  const server = resolveUrl(options)
  return { ...server, ...resolveKey(options, server.url) }
}

function resolveUrl({ url, dataDir, env }: TargetOptions): Pick<Target, 'url' | 'urlFrom'> {
  if (url !== undefined) return { url: parseUrl(url, '--url'), urlFrom: '--url' }
  const fromEnv = env['MUSTER_URL']
  if (fromEnv !== undefined && fromEnv !== '') return { url: parseUrl(fromEnv, 'MUSTER_URL'), urlFrom: 'MUSTER_URL' }
  const file = join(dataDir, 'endpoint')
  const text = readIfThere(file)
  if (text === null)
    throw new CliError(`no controller is known: there is no file ${file}`, {
      hint: 'start one here with `muster up`, or name one with --url or MUSTER_URL',
    })
  return { url: parseUrl(text, file), urlFrom: file }
}

function resolveKey({ dataDir, env }: TargetOptions, url: URL): Pick<Target, 'key' | 'keyFrom' | 'isKeyWithheld'> {
  const given = env['MUSTER_ADMIN_KEY']
  const named = env['MUSTER_ADMIN_KEY_FILE']
  if (given !== undefined && named !== undefined)
    throw usageError('MUSTER_ADMIN_KEY and MUSTER_ADMIN_KEY_FILE are both set: keep one of them')
  if (given !== undefined) return { key: headerSafe(given.trim(), 'MUSTER_ADMIN_KEY'), keyFrom: 'MUSTER_ADMIN_KEY', isKeyWithheld: false }
  if (named !== undefined) {
    const key = readIfThere(named)
    if (key === null) throw usageError(`MUSTER_ADMIN_KEY_FILE names ${named}, which does not exist`)
    return { key: headerSafe(key, named), keyFrom: named, isKeyWithheld: false }
  }
  const file = join(dataDir, 'admin.key')
  const key = readIfThere(file)
  if (key === null) return { key: null, keyFrom: file, isKeyWithheld: false }
  // A URL that a user was tricked into typing must not receive the key of the cluster on this machine.
  const isOwnServer = isLoopback(url) || url.origin === URL.parse(readIfThere(join(dataDir, 'endpoint')) ?? '')?.origin
  return { key: isOwnServer ? headerSafe(key, file) : null, keyFrom: file, isKeyWithheld: !isOwnServer }
}

function parseUrl(text: string, from: string): URL {
  const url = URL.parse(text.trim())
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '')
    throw usageError(`${from} is not an http or https URL: ${JSON.stringify(text.trim())}`)
  // Node would send them as a second Authorization header.
  if (url.username !== '' || url.password !== '') throw usageError(`${from} must not hold a user name or password`)
  return url
}

function headerSafe(key: string, from: string): Secret {
  if (!/^[\x21-\x7e]+$/.test(key)) throw usageError(`${from} does not hold a key: it is empty, or has blanks or line breaks in it`)
  return new Secret(key)
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    const reason = errorMessage(error)
    throw new CliError(`cannot read ${file}: ${reason}`, { cause: error, hint: 'run as its owner, or set MUSTER_URL and MUSTER_ADMIN_KEY' })
  }
}

/** True for URLs that only reach this machine. */
export const isLoopback = ({ hostname }: URL): boolean =>
  hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname)
