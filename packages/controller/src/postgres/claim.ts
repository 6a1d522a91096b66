// Claims a server's home for one Muster process. Holders are numbered files; the highest number counts. A process that finds
// the holder dead creates the next number, which only one process can. Numbers never decrease (a released claim stays as
// `released`), so a process that was paused between reading and creating cannot take over a newer claim. A plain lock file
// cannot be taken over safely: two processes that find it stale delete each other's new one.
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive, identifySelf } from '@muster/host'
import { z } from 'zod'
import { createPrivateFile, readRecord, writePrivateFile } from './private-file.ts'
import { refusal } from './refusal.ts'

const Identity = z.object({ pid: z.number().int(), started: z.string(), boot: z.string() })

const Holder = z.object({
  released: z.boolean(),
  muster: Identity,
  /** The last server it started, to find it after a crash of Muster. */
  server: Identity.nullable(),
})
type Holder = z.infer<typeof Holder>

export interface Claim {
  /** The server recorded by the last holder. */
  readonly previousServer: Holder['server']
  recordServer(server: NonNullable<Holder['server']>): Promise<void>
  release(): Promise<void>
}

/** Throws a FleetError (conflict) with the holder's pid while the holder lives. */
export async function claimHome({ dir, dataDir }: { dir: string; dataDir: string }): Promise<Claim> {
  const holders = join(dir, 'holders')
  await mkdir(holders, { recursive: true, mode: 0o700 })
  for (;;) {
    const last = await lastHolder(holders)
    if (last.holder !== null && !last.holder.released && isAlive(last.holder.muster)) {
      const { pid } = last.holder.muster
      const message = `the database of the data directory ${dataDir} is in use by the Muster process with pid ${pid}`
      throw refusal('conflict', `${message}: stop that one first, or choose another --data-dir`)
    }

    const mine: Holder = { released: false, muster: identifySelf(), server: last.holder?.server ?? null }
    const number = last.number + 1
    if (!(await createPrivateFile(join(holders, nameOf(number)), JSON.stringify(mine)))) continue
    if ((await lastHolder(holders)).number !== number) {
      await rm(join(holders, nameOf(number)), { force: true })
      continue
    }
    await removeBelow(holders, number)
    return claimOf(join(holders, nameOf(number)), mine)
  }
}

function claimOf(path: string, mine: Holder): Claim {
  let current = mine
  const write = async (next: Holder): Promise<void> => {
    current = next
    await writePrivateFile(path, JSON.stringify(next))
  }
  return {
    previousServer: mine.server,
    recordServer: (server) => write({ ...current, server }),
    release: () => write({ ...current, released: true }),
  }
}

async function lastHolder(holders: string): Promise<{ number: number; holder: Holder | null }> {
  const numbers = await numbersIn(holders)
  const number = Math.max(0, ...numbers)
  if (number === 0) return { number, holder: null }
  const path = join(holders, nameOf(number))
  const holder = await readRecord(
    path,
    Holder,
    () => 'It records which Muster process uses this database: make sure that none is running, remove the file, and start again',
  )
  // Another process removed it after the listing.
  return holder === null ? lastHolder(holders) : { number, holder }
}

async function removeBelow(holders: string, number: number): Promise<void> {
  for (const lower of await numbersIn(holders)) if (lower < number) await rm(join(holders, nameOf(lower)), { force: true })
}

async function numbersIn(holders: string): Promise<number[]> {
  return (await readdir(holders)).flatMap((name) => /^(\d+)\.json$/.exec(name)?.slice(1).map(Number) ?? [])
}

function nameOf(number: number): string {
  return `${number}.json`
}
