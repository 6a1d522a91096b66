// The embedded database of a data directory, looked at from outside and without touching it: is it
// made, does it run, and does the Muster that started it still live.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive, type ProcessIdentity } from '@muster/host'
import { parseJson } from '../client/explain-failure.ts'
import { ok, type Verdict, warn } from './verdict.ts'

export interface EmbeddedFacts {
  /** Null: nothing was made yet. */
  readonly home: string | null
  readonly holder: { readonly pid: number; readonly alive: boolean } | null
  readonly server: { readonly pid: number; readonly alive: boolean } | null
}

export function judgeEmbedded({ home, holder, server }: EmbeddedFacts): Verdict {
  if (home === null) return ok('embedded: not made yet, the first start of `muster up` makes it')
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

export async function lookAtEmbedded(dataDir: string): Promise<EmbeddedFacts> {
  const own = join(dataDir, 'postgres')
  const location = record(parseJson((await readIfThere(join(own, 'location.json'))) ?? ''))
  const id = location?.['id']
  const home = typeof id === 'string' && /^[a-z0-9]{8,64}$/.test(id) ? join(systemBase, id) : own
  const names = await readdir(join(home, 'holders')).catch(() => null)
  if (names === null) return { home: null, holder: null, server: null }
  const last = Math.max(0, ...names.map((name) => Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0)))
  const claim = record(parseJson((await readIfThere(join(home, 'holders', `${last}.json`))) ?? ''))
  return { home, holder: claim?.['released'] === true ? null : seen(claim?.['muster']), server: seen(claim?.['server']) }
}

function seen(value: unknown): { pid: number; alive: boolean } | null {
  const { pid, started, boot } = record(value) ?? {}
  if (typeof pid !== 'number' || typeof started !== 'string' || typeof boot !== 'string') return null
  const identity: ProcessIdentity = { pid, started, boot }
  return { pid, alive: isAlive(identity) }
}

function record(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null ? { ...value } : null
}

async function readIfThere(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null)
}
