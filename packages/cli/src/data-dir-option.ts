// The data directory a command means: its flag, else the environment, else the usual place.
import { homedir } from 'node:os'
import { defaultDataDir } from '@muster/host'

export function dataDirOf(given: unknown, env: Readonly<Record<string, string | undefined>>): string {
  if (typeof given === 'string' && given !== '') return given
  return defaultDataDir({ env, isRoot: process.getuid?.() === 0, home: homedir() })
}
