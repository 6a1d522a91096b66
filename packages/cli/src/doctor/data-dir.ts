// The directory where everything is kept: there, ours, closed to others, writable, and used by whom.
import { constants } from 'node:fs'
import { access, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive } from '@muster/host'
import { parseJson } from '../client/explain-failure.ts'
import { nearestExisting } from './nearest-existing.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

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
        ? ok(`${path} is not there yet: the first start makes it`)
        : fail(`${path} is not there and can't be made by this user`, elsewhere)
    case 'not_a_directory':
      return fail(`${path} is not a directory`, elsewhere)
    case 'there': {
      if (facts.uid !== facts.ownUid && facts.ownUid !== 0)
        return fail(`${path} belongs to another user (uid ${facts.uid})`, `run as that user, or ${elsewhere}`)
      if (!facts.writable) return fail(`${path} can't be written to`, `check its mount and its mode, or ${elsewhere}`)
      const use = facts.users.map(({ role, pid }) => `the ${role} (process ${pid})`).join(' and ')
      const found = use === '' ? path : `${path}, used by ${use}`
      if ((facts.mode & 0o077) !== 0)
        return warn(`${found}; others can enter it (mode ${facts.mode.toString(8).padStart(4, '0')})`, `it holds keys: chmod 700 ${path}`)
      if (facts.uid !== facts.ownUid)
        return warn(`${found}; it belongs to uid ${facts.uid}, and you are root`, "run as that user, so that no file in it becomes root's")
      return ok(found)
    }
  }
}

export const dataDirCheck = (path: string): Check => ({ name: 'data dir', run: async () => judgeDataDir(await inspectDataDir(path)) })

async function inspectDataDir(path: string): Promise<DataDirFacts> {
  const found = await stat(path).catch(() => null)
  if (found === null) return { path, state: 'missing', canBeMade: await isWritable(await nearestExisting(path)) }
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

/** Who holds a role in this directory: `locks/<role>.<…>.json` carries the identity of the process. */
async function liveUsers(path: string): Promise<{ role: string; pid: number }[]> {
  const locks = join(path, 'locks')
  const names = (await readdir(locks).catch(() => [])).filter((name) => name.endsWith('.json'))
  const users = await Promise.all(
    names.map(async (name) => {
      const claim = parseJson(await readFile(join(locks, name), 'utf8').catch(() => ''))
      if (typeof claim !== 'object' || claim === null || !('pid' in claim) || !('started' in claim) || !('boot' in claim)) return []
      const { pid, started, boot } = claim
      if (typeof pid !== 'number' || typeof started !== 'string' || typeof boot !== 'string' || !isAlive({ pid, started, boot })) return []
      return [{ role: name.split('.')[0] ?? '', pid }]
    }),
  )
  return users.flat()
}
