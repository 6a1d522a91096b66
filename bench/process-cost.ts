// Cost of a process: the CPU time that it has used and the memory that it holds, from the kernel's counters.
import { readdirSync, readFileSync } from 'node:fs'

/** USER_HZ, which Linux fixes at 100 for programs, whatever the kernel's own tick is. */
const ticksPerSecond = 100

export interface Cost {
  readonly cpuSeconds: number
  readonly rssBytes: number
}

export function costOf(pid: number): Cost {
  const fields = statOf(pid)
  const [user, system] = [Number(fields[11]), Number(fields[12])]
  const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return { cpuSeconds: (user + system) / ticksPerSecond, rssBytes: Number(rss ?? 0) * 1024 }
}

/** A process with all of its children, those that have ended included. */
export function costOfFamily(pid: number): Cost {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(Number(name)) === pid)
  const own = costOf(pid)
  const ended = endedChildrenCpuSeconds(pid)
  return children
    .map((child) => costOf(Number(child)))
    .reduce((sum, each) => ({ cpuSeconds: sum.cpuSeconds + each.cpuSeconds, rssBytes: sum.rssBytes + each.rssBytes }), {
      cpuSeconds: own.cpuSeconds + ended,
      rssBytes: own.rssBytes,
    })
}

/** CPU time of the children that have ended and were waited for. */
export function endedChildrenCpuSeconds(pid: number): number {
  const fields = statOf(pid)
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond
}

function parentOf(pid: number): number | null {
  try {
    return Number(statOf(pid)[1])
  } catch {
    return null // ended meanwhile
  }
}

/** The fields of /proc/PID/stat after the name, which may hold anything. */
function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}
