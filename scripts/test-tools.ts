// The real servers and the browser that tests run against come from Debian. Where we may, we install them.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { environment, seconds } from './environment.ts'

/** Programs, and the packages they come in. */
const needed = new Map([
  ['nats-server', 'nats-server'],
  ['docker-registry', 'docker-registry'],
  ['chromium-headless-shell', 'chromium-headless-shell'],
  ['ip', 'iproute2'],
  ['curl', 'curl'],
])

/** False, after saying what is missing and how to get it, if the tests can't run. */
export function ensureTestTools(): boolean {
  const missing = findMissing()
  if (missing.length === 0) return true
  const prefix = rootPrefix()
  if (prefix !== null && existsSync('/usr/bin/apt-get')) install(missing, prefix)
  const still = findMissing()
  if (still.length === 0) return true
  console.error(`The tests need ${still.join(', ')}. Install with:\n  sudo apt-get install --no-install-recommends ${still.join(' ')}`)
  return false
}

function findMissing(): string[] {
  const directories = [...(environment['PATH'] ?? '').split(delimiter), '/usr/sbin']
  const isThere = (program: string): boolean => directories.some((directory) => isExecutable(join(directory, program)))
  return [...needed].filter(([program]) => !isThere(program)).map(([, name]) => name)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** How to run a command as root without a password; null if there is no way. */
function rootPrefix(): string[] | null {
  if (process.getuid?.() === 0) return []
  return spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0 ? ['sudo', '-n'] : null
}

function install(packages: readonly string[], prefix: readonly string[]): void {
  console.log(`installing ${packages.join(', ')} (apt-get) …`)
  const started = performance.now()
  const [program = 'sh', ...args] = [...prefix, 'sh', join(import.meta.dirname, 'apt-install.sh'), ...packages]
  const { status } = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
  if (status === 0) console.log(`installed in ${seconds(performance.now() - started)}`)
}
