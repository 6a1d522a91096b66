// Identifies a process across reuse of its pid: by pid, start time and boot id.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export type ProcessIdentity = Readonly<{ pid: number; started: string; boot: string }>

/** Null when no process has this pid; a zombie counts as ended. */
export function identifyProcess(pid: number): ProcessIdentity | null {
  if (process.platform !== 'linux') return identifyByPs(pid)
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the program's name in brackets and may hold anything; count from its end.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state, started] = [fields[0], fields[19]]
    if (state === 'Z' || state === 'X' || started === undefined) return null
    return { pid, started, boot: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() }
  } catch {
    return null
  }
}

/** A stored identity; null when the value is none. */
export function readIdentity(value: unknown): ProcessIdentity | null {
  if (typeof value !== 'object' || value === null) return null
  const { pid, started, boot }: Record<string, unknown> = { ...value }
  return typeof pid === 'number' && typeof started === 'string' && typeof boot === 'string' ? { pid, started, boot } : null
}

export function isAlive(identity: ProcessIdentity): boolean {
  const now = identifyProcess(identity.pid)
  return now !== null && now.started === identity.started && now.boot === identity.boot
}

export function identifySelf(): ProcessIdentity {
  const own = identifyProcess(process.pid)
  if (own === null) throw new Error(`cannot read the start time of process ${process.pid}`)
  return own
}

function identifyByPs(pid: number): ProcessIdentity | null {
  try {
    const started = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
    return started === '' ? null : { pid, started, boot: '' }
  } catch {
    return null
  }
}
