// What runs on this machine: enough of it to find a server, or its children, that somebody else started.
// Command lines are used, not working directories: those of another user need a privilege that root lacks in most containers.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export type RunningProcess = Readonly<{ pid: number; parent: number; args: readonly string[] }>

export function listProcesses(): readonly RunningProcess[] {
  return process.platform === 'linux' ? fromProc() : fromPs()
}

/** Whether `args` is a PostgreSQL program working on exactly this directory. */
export function worksOn(args: readonly string[], directory: string): boolean {
  return /(^|\/)(postgres|initdb)$/.test(args[0] ?? '') && args.includes(directory)
}

function fromProc(): RunningProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        // The program's name stands in brackets and may hold anything; count from its end.
        const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const args = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').slice(0, -1)
        return [{ pid: Number(name), parent: Number(parent), args }]
      } catch {
        return [] // It ended while we were looking.
      }
    })
}

// `ps` joins the arguments with blanks, so a directory with a blank in its name is not recognised here.
function fromPs(): RunningProcess[] {
  const table = execFileSync('ps', ['-axo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  return table.split('\n').flatMap((line) => {
    const [pid, parent, ...args] = line.trim().split(/\s+/)
    return pid === undefined || parent === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), args }]
  })
}
