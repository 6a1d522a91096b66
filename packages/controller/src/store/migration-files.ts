// The migrations that this version knows: plain SQL files with a number and a name, never edited once they were released.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

export type Migration = Readonly<{ version: number; name: string; checksum: string; sql: string }>

/** In order of their numbers, which begin with 1 and leave none out. */
export async function readMigrations(directory: string): Promise<readonly Migration[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).toSorted()
  return Promise.all(
    files.map(async (file, index) => {
      const [, digits, name] = /^(\d{4})_([a-z0-9_]+)\.sql$/.exec(file) ?? []
      if (digits === undefined || name === undefined)
        throw new Error(`${join(directory, file)}: a migration is named like 0007_what_it_does.sql`)
      const version = Number(digits)
      if (version !== index + 1)
        throw new Error(`${join(directory, file)}: the next migration has the number ${String(index + 1).padStart(4, '0')}`)
      const sql = await readFile(join(directory, file), 'utf8')
      return { version, name, checksum: createHash('sha256').update(sql).digest('hex'), sql }
    }),
  )
}
