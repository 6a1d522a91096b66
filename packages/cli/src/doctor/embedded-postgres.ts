// The embedded database of a data directory, looked at from outside and without touching it: is it
// made, does it run, and does the Muster that started it still live.
import { access, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isAlive, type ProcessIdentity } from '@muster/host'
import { parseJson } from '../client/explain-failure.ts'
import { fail, ok, type Verdict, warn } from './verdict.ts'

type ProcessState = { readonly pid: number; readonly alive: boolean }

export type EmbeddedFacts =
  | { readonly state: 'none' }
  /** Root keeps it elsewhere, and there it is no more. */
  | { readonly state: 'gone'; readonly home: string; readonly dataDir: string }
  | { readonly state: 'made'; readonly home: string; readonly holder: ProcessState | null; readonly server: ProcessState | null }

export function judgeEmbedded(facts: EmbeddedFacts): Verdict {
  if (facts.state === 'none') return ok('embedded: not made yet, the first start of `muster up` makes it')
  if (facts.state === 'gone') {
    const { home, dataDir } = facts
    // The words with which `muster up` refuses to start.
    return fail(
      `embedded: the database of ${dataDir} was in ${home}, which is gone`,
      `bring that directory back (in a container: keep ${systemBase} on a volume, or run Muster as an ordinary user), ` +
        `or remove ${join(dataDir, 'postgres')} to begin with an empty database`,
    )
  }
  const { home, holder, server } = facts
  if (holder?.alive === true)
    return ok(`embedded: used by the Muster process ${holder.pid}${server?.alive === true ? `, server ${server.pid}` : ''}`)
  if (server?.alive === true)
    return warn(
      `embedded: the server ${server.pid} still runs, and the Muster that started it is gone`,
      'the next `muster up` stops and recovers it; nothing is lost',
    )
  return ok(`embedded: in ${home}, stopped`)
}

/** Where root keeps the servers' files; a user's are in the data directory itself. */
const systemBase = '/var/lib/muster-postgres'

export async function inspectEmbedded(dataDir: string): Promise<EmbeddedFacts> {
  const own = join(dataDir, 'postgres')
  const location = record(parseJson((await readIfThere(join(own, 'location.json'))) ?? ''))
  const id = location?.['id']
  const home = typeof id === 'string' && /^[a-z0-9]{8,64}$/.test(id) ? join(systemBase, id) : own
  if (home !== own && (await isMissing(join(home, 'owner.json')))) return { state: 'gone', home, dataDir }
  const names = await readdir(join(home, 'holders')).catch(() => null)
  if (names === null) return { state: 'none' }
  const last = Math.max(0, ...names.map((name) => Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0)))
  const claim = record(parseJson((await readIfThere(join(home, 'holders', `${last}.json`))) ?? ''))
  return { state: 'made', home, holder: claim?.['released'] === true ? null : processState(claim?.['muster']), server: processState(claim?.['server']) }
}

function processState(value: unknown): ProcessState | null {
  const { pid, started, boot } = record(value) ?? {}
  if (typeof pid !== 'number' || typeof started !== 'string' || typeof boot !== 'string') return null
  const identity: ProcessIdentity = { pid, started, boot }
  return { pid, alive: isAlive(identity) }
}

function record(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null ? { ...value } : null
}

/** What can't be looked at is not missing. */
const isMissing = (path: string): Promise<boolean> =>
  access(path).then(
    () => false,
    (error: unknown) => errorCode(error) === 'ENOENT',
  )

async function readIfThere(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null)
}
