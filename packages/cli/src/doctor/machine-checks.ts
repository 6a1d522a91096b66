// Checks of this machine: Node, settings, data directory, disk and port.
import { constants, existsSync } from 'node:fs'
import { access, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { createServer, isIP } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { isAlive, readIdentity, SettingsError, parseJson } from '@muster/host'
import { formatBytes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { type Check, fail, ok, type Verdict, warn } from './checks.ts'
import { probeVersion } from './probes.ts'

const neededNode = 24

export function judgeNodeVersion(version: string): Verdict {
  const major = Number(/^v?(\d+)\./.exec(version)?.[1])
  return major >= neededNode
    ? ok(version)
    : fail(`${version} is too old`, `use Node ${neededNode} or newer; in a clone, \`npm run -s muster --\` brings its own`)
}

export const nodeVersionCheck = (): Check => ({ name: 'node', run: async () => judgeNodeVersion(process.versions.node) })

export function judgeSettings(problem: Error | null): Verdict {
  if (problem === null) return ok('flags, environment and configuration file are valid')
  if (problem instanceof SettingsError || problem instanceof CliError)
    return fail(problem.message, 'correct it: Muster does not start with a bad setting')
  throw problem
}

export const settingsCheck = (problem: Error | null): Check => ({ name: 'settings', run: async () => judgeSettings(problem) })

export type DataDirFacts = { readonly path: string } & (
  | { readonly state: 'missing'; readonly canBeMade: boolean }
  | { readonly state: 'not_a_directory' }
  | {
      readonly state: 'there'
      /** Permission bits. */
      readonly mode: number
      readonly uid: number
      readonly ownUid: number
      readonly writable: boolean
      /** Live processes, `controller` or `worker`. */
      readonly users: ReadonlyArray<{ readonly role: string; readonly pid: number }>
    }
)

export function judgeDataDir(facts: DataDirFacts): Verdict {
  const { path } = facts
  const elsewhere = 'choose another one with --data-dir or MUSTER_DATA_DIR'
  switch (facts.state) {
    case 'missing':
      return facts.canBeMade
        ? ok(`${path} does not exist yet: the first start creates it`)
        : fail(`${path} does not exist, and this user cannot create it`, elsewhere)
    case 'not_a_directory':
      return fail(`${path} is not a directory`, elsewhere)
    case 'there': {
      if (facts.uid !== facts.ownUid && facts.ownUid !== 0)
        return fail(`${path} belongs to another user (uid ${facts.uid})`, `run as that user, or ${elsewhere}`)
      if (!facts.writable) return fail(`${path} is not writable`, `check its mount and its mode, or ${elsewhere}`)
      const use = facts.users.map(({ role, pid }) => `the ${role} (process ${pid})`).join(' and ')
      const found = use === '' ? path : `${path}, used by ${use}`
      if ((facts.mode & 0o077) !== 0)
        return warn(
          `${found}; other users have access (mode ${facts.mode.toString(8).padStart(4, '0')})`,
          `it holds keys: chmod 700 ${path}`,
        )
      if (facts.uid !== facts.ownUid)
        return warn(`${found}; it belongs to uid ${facts.uid}, and you are root`, "run as that user, so that no file in it becomes root's")
      return ok(found)
    }
  }
}

export const dataDirCheck = (path: string): Check => ({ name: 'data dir', run: async () => judgeDataDir(await inspectDataDir(path)) })

async function inspectDataDir(path: string): Promise<DataDirFacts> {
  const found = await stat(path).catch(() => null)
  if (found === null) return { path, state: 'missing', canBeMade: await isWritable(nearestExisting(path)) }
  if (!found.isDirectory()) return { path, state: 'not_a_directory' }
  return {
    path,
    state: 'there',
    mode: found.mode & 0o7777,
    uid: found.uid,
    ownUid: process.getuid?.() ?? found.uid,
    writable: await isWritable(path),
    users: await liveUsers(path),
  }
}

const isWritable = (path: string): Promise<boolean> =>
  access(path, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )

/** Live processes that hold a role in this directory: `locks/<role>.<…>.json` holds the identity of each. */
async function liveUsers(path: string): Promise<{ role: string; pid: number }[]> {
  const locks = join(path, 'locks')
  const names = (await readdir(locks).catch(() => [])).filter((name) => name.endsWith('.json'))
  const users = await Promise.all(
    names.map(async (name) => {
      const claim = parseJson(await readFile(join(locks, name), 'utf8').catch(() => ''))
      const identity = readIdentity(claim)
      return identity === null || !isAlive(identity) ? [] : [{ role: name.split('.')[0] ?? '', pid: identity.pid }]
    }),
  )
  return users.flat()
}

const failBelow = 1e9
const warnBelow = 5e9

export function judgeDiskSpace(freeBytes: number, path: string): Verdict {
  const found = `${formatBytes(freeBytes)} free at ${path}`
  if (freeBytes < failBelow)
    return fail(found, 'free at least 1 GB, or choose another --data-dir: databases stop and downloads fail on a full disk')
  if (freeBytes < warnBelow) return warn(found, 'engines and models take several GB each: free space, or choose another --data-dir')
  return ok(found)
}

export const diskSpaceCheck = (dataDir: string): Check => ({
  name: 'disk',
  run: async () => {
    const path = nearestExisting(dataDir)
    const { bavail, bsize } = await statfs(path)
    return judgeDiskSpace(bavail * bsize, path)
  },
})

/** The path, or its closest parent that exists. */
function nearestExisting(path: string): string {
  const full = resolve(path)
  return existsSync(full) || dirname(full) === full ? full : nearestExisting(dirname(full))
}

export type PortState = 'free' | 'in_use' | 'forbidden' | 'no_such_address' | 'unusable'

export function judgePort(facts: { host: string; port: number; state: PortState; musterVersion: string | null }): Verdict {
  const at = `${facts.host}:${facts.port}`
  switch (facts.state) {
    case 'free':
      return ok(`${at} is free`)
    case 'in_use':
      return facts.musterVersion === null
        ? fail(`${at} is used by another program`, 'stop that program, or choose another port with --port')
        : ok(`${at} is used by a Muster controller (${facts.musterVersion})`)
    case 'forbidden':
      return fail(`this user may not listen on ${at}`, 'choose a port above 1023 with --port')
    case 'no_such_address':
      return fail(`${facts.host} is not an address of this machine`, 'give one that is with --host; 0.0.0.0 means all')
    case 'unusable':
      return fail(`cannot listen on ${at}`, 'choose another --host or --port')
  }
}

export const portCheck = ({ host, port }: { host: string; port: number }): Check => ({
  name: 'port',
  run: async (signal) => {
    const state = port === 0 ? 'free' : await tryToListen({ host, port })
    const musterVersion = state === 'in_use' ? await probeVersion(new URL(`http://${reachable(host)}:${port}`), signal) : null
    return judgePort({ host, port, state, musterVersion })
  },
})

/** The address in the URL of a controller; null for a public URL, which says nothing about it. */
export function listenAddressIn(url: URL): { host: string; port: number } | null {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (url.protocol !== 'http:' || url.port === '' || (isIP(host) === 0 && host !== 'localhost')) return null
  return { host, port: Number(url.port) }
}

/** A wildcard address is reached through the loopback address. */
const reachable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host

const states: Readonly<Record<string, PortState>> = {
  EADDRINUSE: 'in_use',
  EACCES: 'forbidden',
  EADDRNOTAVAIL: 'no_such_address',
  ENOTFOUND: 'no_such_address',
}

function tryToListen(at: { host: string; port: number }): Promise<PortState> {
  return new Promise((settle) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) => settle(states[error.code ?? ''] ?? 'unusable'))
    server.listen({ ...at, exclusive: true }, () => server.close(() => settle('free')))
  })
}
