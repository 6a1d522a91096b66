// Makes the cluster (PostgreSQL's word for the files of one server). It appears whole under its name or not at all.
import { chown, lstat, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '@muster/host'
import { stopInitialisers } from './postmaster.ts'
import { syncDirectory } from './private-file.ts'
import { refusal } from './refusal.ts'
import { runProgram } from './run-program.ts'
import type { ServerUser } from './server-user.ts'

export const superuser = 'muster'
export const databaseName = 'muster'

export interface ClusterPlan {
  /** `data` will be made in it. */
  readonly dir: string
  /** Where `bin/initdb` and `bin/postgres` are. */
  readonly serverDir: string
  readonly user: ServerUser | null
  readonly password: string
  readonly signal?: AbortSignal
}

interface Alone extends Pick<ClusterPlan, 'serverDir' | 'user' | 'signal'> {
  readonly data: string
  readonly sql: string
}

export async function makeCluster({ dir, serverDir, user, password, signal }: ClusterPlan): Promise<void> {
  // initdb puts its own path between double quotes into a shell command.
  if (/["$`\\\n]/.test(dir))
    throw refusal('invalid', `PostgreSQL can't live in ${dir}: choose a --data-dir without " $ \` and \\ in its path`)
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
    // Renaming the empty database that is there takes 40 ms; creating another one copies it.
    await runAlone({ data, serverDir, user, sql: `alter database postgres rename to ${databaseName}`, ...cancel })

    await rename(data, join(dir, 'data'))
    await syncDirectory(dir)
  } finally {
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** For a cluster whose password was lost: its files are ours, so it can be given another one. */
export async function setPassword({ dir, serverDir, user, password }: ClusterPlan): Promise<void> {
  await runAlone({ data: join(dir, 'data'), serverDir, user, sql: `alter user ${superuser} password '${password}'` })
}

/** One line of SQL in a server without connections. */
async function runAlone({ data, serverDir, user, sql, signal }: Alone): Promise<void> {
  const program = { path: join(serverDir, 'bin', 'postgres'), args: ['--single', '-j', '-D', data, 'template1'], user }
  await runProgram(program, { input: `${sql};\n\n`, ...(signal === undefined ? {} : { signal }) })
}

/** Removes what was left by a Muster that was killed while it made the cluster; its initdb may still be running. */
export async function removeHalfMade(dir: string, clock: Clock): Promise<void> {
  const names = (await readdir(dir)).filter((name) => name.startsWith('init-'))
  if (names.length === 0) return
  await stopInitialisers(dir, clock)
  for (const name of names) await rm(join(dir, name), { recursive: true, force: true, maxRetries: 5 })
}

export async function isCluster(path: string, user: ServerUser | null): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return false
  const owner = user?.uid ?? process.getuid?.()
  if (!found.isDirectory() || (owner !== undefined && found.uid !== owner)) {
    throw new Error(`${path} is not a directory of the database server's user (number ${owner}): it was changed by somebody else`)
  }
  return true
}
