// Creates the cluster (PostgreSQL's term for the files of one server) atomically, and holds the server's settings.
import { chown, lstat, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '@muster/host'
import { port } from './home.ts'
import { stopInitdb } from './postmaster.ts'
import { syncDirectory } from './private-file.ts'
import { refusal } from './refusal.ts'
import { runProgram, type ServerUser } from './server-process.ts'

export const superuser = 'muster'
export const databaseName = 'muster'

export interface ClusterPlan {
  /** The parent of `data`. */
  readonly dir: string
  /** Where `bin/initdb` and `bin/postgres` are. */
  readonly serverDir: string
  readonly user: ServerUser | null
  readonly password: string
  readonly signal?: AbortSignal
}

interface SingleUserCommand extends Pick<ClusterPlan, 'serverDir' | 'user' | 'signal'> {
  readonly data: string
  readonly sql: string
}

export async function makeCluster({ dir, serverDir, user, password, signal }: ClusterPlan): Promise<void> {
  // initdb puts its own path between double quotes into a shell command.
  if (/["$`\\\n]/.test(dir)) throw refusal('invalid', `PostgreSQL cannot use ${dir}: choose a --data-dir without " $ \` and \\ in its path`)
  const work = await mkdtemp(join(dir, 'init-'))
  const [data, passwordFile] = [join(work, 'data'), join(work, 'password')]
  const cancel = signal === undefined ? {} : { signal }
  try {
    await writeFile(passwordFile, `${password}\n`, { mode: 0o600 })
    for (const path of [passwordFile, work]) if (user !== null) await chown(path, user.uid, user.gid)

    const locale = ['--encoding=UTF8', '--locale-provider=libc', '--locale=C']
    const access = [`--username=${superuser}`, `--pwfile=${passwordFile}`, '--auth-local=scram-sha-256', '--auth-host=reject']
    await runProgram({ path: join(serverDir, 'bin', 'initdb'), args: ['-D', data, ...locale, ...access], user }, cancel)
    await rm(passwordFile)
    // Renaming the existing empty database takes 40 ms; creating another one copies it.
    await runSingleUser({ data, serverDir, user, sql: `alter database postgres rename to ${databaseName}`, ...cancel })

    await rename(data, join(dir, 'data'))
    await syncDirectory(dir)
  } finally {
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Replaces the lost password of a cluster. */
export async function setPassword({ dir, serverDir, user, password }: ClusterPlan): Promise<void> {
  await runSingleUser({ data: join(dir, 'data'), serverDir, user, sql: `alter user ${superuser} password '${password}'` })
}

/** Runs one line of SQL in single-user mode. */
async function runSingleUser({ data, serverDir, user, sql, signal }: SingleUserCommand): Promise<void> {
  const program = { path: join(serverDir, 'bin', 'postgres'), args: ['--single', '-j', '-D', data, 'template1'], user }
  await runProgram(program, { input: `${sql};\n\n`, ...(signal === undefined ? {} : { signal }) })
}

/** Removes leftovers of a Muster that was killed during initdb, which may still be running. */
export async function removeHalfMade(dir: string, clock: Clock): Promise<void> {
  const names = (await readdir(dir)).filter((name) => name.startsWith('init-'))
  if (names.length === 0) return
  await stopInitdb(dir, clock)
  for (const name of names) await rm(join(dir, name), { recursive: true, force: true, maxRetries: 5 })
}

export async function isCluster(path: string, user: ServerUser | null): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return false
  const owner = user?.uid ?? process.getuid?.()
  if (!found.isDirectory() || (owner !== undefined && found.uid !== owner)) {
    throw new Error(`${path} is not a directory of the database server's user (uid ${owner}); restore its owner`)
  }
  return true
}

/** Settings of the embedded server: durable, private, small. Passed at each start, so that older data directories get them too. */
export function serverSettings({ socketDir, major }: { socketDir: string; major: number }): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: String(port),
    // Quoted, because a comma or a blank would separate list entries.
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',

    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',

    shared_buffers: '64MB',
    max_connections: '100',
    // No replication, so less WAL is needed.
    wal_level: 'minimal',
    max_wal_senders: '0',
    max_wal_size: '256MB',
    min_wal_size: '64MB',
    jit: 'off',
    max_parallel_workers_per_gather: '0',
    // I/O worker processes pay off only on large machines.
    ...(major >= 18 ? { io_method: 'sync' } : {}),

    timezone: 'UTC',
    log_timezone: 'UTC',
    logging_collector: 'off',
    log_checkpoints: 'off',
    log_line_prefix: '%m [%p] %a ',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
