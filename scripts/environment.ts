// The place of the repository, the environment in which its tools run (its own Node and tools come first, and Debian's
// servers, which are not on everybody's path, last), and the directory for temporary files of tests.
import { accessSync, chmodSync, constants, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

export const root = join(import.meta.dirname, '..')

export const environment: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: [join(root, 'node_modules', '.bin'), process.env['PATH'] ?? '', '/usr/sbin', '/usr/bin'].join(delimiter),
  ...(process.stdout.isTTY && process.env['NO_COLOR'] === undefined ? { FORCE_COLOR: '1' } : {}),
}

export const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`

/** Makes a directory for the temporary files of a test run. PostgreSQL and tests that run as another user have to get through. */
export function makeTestDirectory(): string {
  const directory = mkdtempSync(join(chooseTemporaryDirectory(), 'muster-test-'))
  chmodSync(directory, 0o711)
  return directory
}

/** In memory where that has room: tests write and sync thousands of small files, and a shared disk makes them wait. */
function chooseTemporaryDirectory(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    accessSync('/dev/shm', constants.W_OK)
    if (bavail * bsize > 6e9) return '/dev/shm'
  } catch {
    // Not a Linux, or a small container.
  }
  return tmpdir()
}

/** A process that outlives its test may still write here; that must not hide the results. */
export function removeDirectory(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  } catch (error) {
    console.error(`cannot remove ${directory}: ${String(error)}`)
  }
}
