// Where the repository is, and the environment in which its tools run: its own Node and tools come first, and
// Debian's servers, which are not on everybody's path, last.
import { delimiter, join } from 'node:path'

export const root = join(import.meta.dirname, '..')

export const environment: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: [join(root, 'node_modules', '.bin'), process.env['PATH'] ?? '', '/usr/sbin', '/usr/bin'].join(delimiter),
  ...(process.stdout.isTTY && process.env['NO_COLOR'] === undefined ? { FORCE_COLOR: '1' } : {}),
}

export const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`
