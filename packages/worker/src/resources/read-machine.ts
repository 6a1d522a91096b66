// Processors and memory that this process may use: what the machine has, within what it was given.
import { availableParallelism, freemem, totalmem } from 'node:os'
import { readCgroupLimits } from './cgroup.ts'
import type { HostFiles } from './host-files.ts'
import { parseMeminfo, type Memory } from './meminfo.ts'
import { saneBytes, saneFree, saneTotal } from './sane-bytes.ts'

export type Machine = Readonly<{ cpus: number; memory: Memory }>

/** What the runtime itself knows of the machine. */
export type Runtime = Readonly<{ os: NodeJS.Platform; arch: string; cpus(): number; totalMemory(): number; freeMemory(): number }>

export const thisRuntime: Runtime = {
  os: process.platform,
  arch: process.arch,
  cpus: availableParallelism,
  totalMemory: totalmem,
  freeMemory: freemem,
}

export async function readMachine({ files, runtime }: { files: HostFiles; runtime: Runtime }): Promise<Machine> {
  if (runtime.os !== 'linux') {
    const totalBytes = saneTotal(runtime.totalMemory())
    return { cpus: runtime.cpus(), memory: { totalBytes, availableBytes: saneFree(runtime.freeMemory(), totalBytes) } }
  }
  const [meminfo, limits] = await Promise.all([files.read('/proc/meminfo'), readCgroupLimits(files)])
  const memory = parseMeminfo(meminfo ?? '')
  return {
    cpus: Math.min(runtime.cpus(), limits.cpus ?? Infinity),
    memory: {
      totalBytes: saneTotal(Math.min(memory.totalBytes ?? Infinity, limits.memoryBytes ?? Infinity)),
      availableBytes: saneBytes(Math.min(memory.availableBytes ?? Infinity, limits.memoryLeftBytes ?? Infinity)),
    },
  }
}
