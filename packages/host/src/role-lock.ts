// A lock for one process per role in a directory, without kernel locks (Node has none).
//
// Each process writes a claim, a file of its own with its identity, and only then reads the other claims. When two claims
// exist at once, at least one process sees the other's, and a process that sees a live rival does not hold the lock: so
// there are never two holders. The younger process yields at once; the older one waits a moment for it, so that exactly
// one remains. A claim of a dead process (`kill -9`, a reboot) is removed by the next one that reads it.
import { link, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from './clock.ts'
import { errorCode, ifMissing } from './error-code.ts'
import { parseJson } from './parse-json.ts'
import { isAlive, identifySelf, type ProcessIdentity, readIdentity } from './process-identity.ts'
import { temporaryName } from './files.ts'

const patienceMs = 1000
const pollMs = 20
/** A claim is created complete, so an older unreadable one is damaged. */
const unreadableGraceMs = 2000

export type RoleLock =
  /** `isLost`: the claim is gone, so another process may take the lock. */
  { held: true; release(): Promise<void>; isLost(): Promise<boolean> } | { held: false; holderPid: number | null }

export interface RoleLockOptions {
  readonly directory: string
  /** Without dots. */
  readonly role: string
  readonly clock: Clock
  readonly signal?: AbortSignal
}

export async function acquireRoleLock({ directory, role, clock, signal }: RoleLockOptions): Promise<RoleLock> {
  const own = identifySelf()
  const claim = join(directory, claimName(role, own))
  if (!(await writeClaim(claim, own))) return { held: false, holderPid: own.pid }
  const release = (): Promise<void> => rm(claim, { force: true })
  const isLost = (): Promise<boolean> => stat(claim).then(() => false, isMissing)
  try {
    const deadline = clock.monotonic() + patienceMs
    for (;;) {
      const rivals = await liveRivals({ directory, role, own, now: clock.now() })
      if (rivals.length === 0) return { held: true, release, isLost }
      const known = rivals.filter((rival) => rival !== null)
      if (known.some((rival) => isOlder(rival, own)) || clock.monotonic() >= deadline) {
        await release()
        return { held: false, holderPid: known[0]?.pid ?? null }
      }
      await clock.sleep(pollMs, signal)
    }
  } catch (error) {
    await release()
    throw error
  }
}

/** A disk that cannot be read just now is no proof that the file is gone. */
const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(String(errorCode(error)))

/** Unique to the process: no two processes write the same file, and a name is never reused. */
function claimName(role: string, { pid, started, boot }: ProcessIdentity): string {
  return `${role}.${pid}-${`${started}-${boot}`.replaceAll(/[^A-Za-z0-9]+/g, '-')}.json`
}

/** False when this process has written the same claim before. */
async function writeClaim(claim: string, own: ProcessIdentity): Promise<boolean> {
  const temporary = temporaryName(claim)
  await writeFile(temporary, JSON.stringify(own), { flag: 'wx', mode: 0o600 })
  try {
    await link(temporary, claim)
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Null stands for a claim that is not readable yet. */
async function liveRivals(search: {
  directory: string
  role: string
  own: ProcessIdentity
  now: number
}): Promise<(ProcessIdentity | null)[]> {
  const ownName = claimName(search.role, search.own)
  const names = (await readdir(search.directory)).filter(
    (name) => name.startsWith(`${search.role}.`) && name.endsWith('.json') && name !== ownName,
  )
  const rivals = await Promise.all(
    names.map(async (name) => {
      const path = join(search.directory, name)
      const rival = await readClaim(path, search.now)
      if (rival === 'dead') await rm(path, { force: true })
      return rival
    }),
  )
  return rivals.filter((rival) => rival !== 'dead')
}

async function readClaim(path: string, now: number): Promise<ProcessIdentity | null | 'dead'> {
  const text = await readFile(path, 'utf8').catch(ifMissing(null))
  if (text === null) return 'dead'
  const identity = readIdentity(parseJson(text))
  if (identity !== null) return isAlive(identity) ? identity : 'dead'
  // In both directions: the clock may have been set back.
  const writtenAt = (await stat(path).catch(ifMissing(null)))?.mtimeMs ?? -Infinity
  return Math.abs(now - writtenAt) < unreadableGraceMs ? null : 'dead'
}

/** Start times are integers as text on Linux; elsewhere any consistent order works. */
function isOlder(a: ProcessIdentity, b: ProcessIdentity): boolean {
  if (a.started.length !== b.started.length) return a.started.length < b.started.length
  return a.started === b.started ? a.pid < b.pid : a.started < b.started
}
