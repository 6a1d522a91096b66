// The directory for the durable state of a process: closed to other users, used by one process per role, and written so
// that a crash leaves no half-written file.
import { chmod, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { FleetError } from '@muster/protocol'
import { systemClock, type Clock } from './clock.ts'
import { ifMissing, errorMessage } from './error-code.ts'
import { acquireRoleLock } from './role-lock.ts'
import { Secret } from './secret.ts'
import { isTemporary, makeDirectory, writeFileAtomic } from './files.ts'

export interface DataDir extends AsyncDisposable {
  readonly root: string
  /** Names may have slashes; they cannot lead out of the directory. */
  path(name: string): string
  /** Null when there is no such file. */
  readFile(name: string): Promise<string | null>
  writeFile(name: string, data: string | Uint8Array): Promise<void>
  /** Readable only by its owner. */
  writeSecret(name: string, value: string | Secret): Promise<void>
  /** True when the directory of this process is not there any more: it was removed, replaced or unmounted. */
  isLost(): Promise<boolean>
  /** Releases the lock. */
  release(): Promise<void>
}

export interface DataDirOptions {
  readonly path: string
  /** `controller`, `worker`: processes of different roles may share a directory. */
  readonly role: string
  readonly clock?: Clock
  readonly signal?: AbortSignal
}

type Environment = Readonly<Record<string, string | undefined>>

export function defaultDataDir({ env, isRoot, home }: { env: Environment; isRoot: boolean; home: string }): string {
  return env.MUSTER_DATA_DIR || (isRoot ? '/var/lib/muster' : join(home, '.local/share/muster'))
}

export async function openDataDir({ path: given, role, clock = systemClock, signal }: DataDirOptions): Promise<DataDir> {
  const root = resolve(given)
  await prepare(root)
  const locks = join(root, 'locks')
  await mkdir(locks, { recursive: true, mode: 0o700 })
  for (const directory of [root, locks]) await removeLeftovers(directory, clock.now())
  const lock = await acquireRoleLock({ directory: locks, role, clock, ...(signal === undefined ? {} : { signal }) })
  if (!lock.held) {
    const holder = lock.holderPid === null ? 'another process' : `process ${lock.holderPid}`
    throw refusal(
      'conflict',
      `the data directory ${root} is in use by ${holder} (${role}): stop that, or choose another directory with --data-dir`,
    )
  }

  const path = (name: string): string => {
    const full = resolve(root, name)
    if (!full.startsWith(root + sep)) throw new Error(`"${name}" leads out of the data directory`)
    return full
  }
  const write = async (name: string, data: string | Uint8Array, mode: number): Promise<void> => {
    const file = path(name)
    await makeDirectory(dirname(file), { mode: 0o700 })
    await writeFileAtomic(file, data, { mode })
  }
  return {
    root,
    path,
    readFile: async (name) => readFile(path(name), 'utf8').catch(ifMissing(null)),
    writeFile: (name, data) => write(name, data, 0o644),
    writeSecret: (name, value) => write(name, value instanceof Secret ? value.reveal() : value, 0o600),
    isLost: lock.isLost,
    release: lock.release,
    [Symbol.asyncDispose]: lock.release,
  }
}

async function prepare(root: string): Promise<void> {
  try {
    await makeDirectory(root, { mode: 0o700 })
    const { mode, uid } = await stat(root)
    if (uid !== process.getuid?.() || (mode & 0o777) === 0o700) return
    if (!(await mayClose(root))) {
      const problem = `${root} is open to other users and holds files that are not Muster's`
      throw refusal('invalid', `${problem}: choose an empty directory, or one of Muster's own, with --data-dir`)
    }
    await chmod(root, 0o700)
  } catch (error) {
    if (error instanceof FleetError) throw error
    throw refusal('invalid', `cannot use ${root} as the data directory: ${errorMessage(error)}`, { cause: error })
  }
}

/** A mistyped flag must not close a home directory, /tmp or /. */
async function mayClose(root: string): Promise<boolean> {
  const names = (await readdir(root)).filter((name) => name !== 'lost+found')
  return names.length === 0 || names.includes('locks') || names.includes('muster.yaml')
}

/** Removes files that a crash left half written; younger ones may be in use by another process. */
async function removeLeftovers(directory: string, now: number): Promise<void> {
  for (const name of (await readdir(directory)).filter(isTemporary)) {
    const path = join(directory, name)
    const found = await stat(path).catch(ifMissing(null))
    if (found !== null && Math.abs(now - found.mtimeMs) > 60_000) await rm(path, { force: true })
  }
}

function refusal(code: 'conflict' | 'invalid', message: string, options?: ErrorOptions): FleetError {
  return new FleetError({ code, retry: 'never', message }, options)
}
