// Processors and memory that this process may use: those of the machine, within the limits of its cgroups.
import { availableParallelism, freemem, totalmem } from 'node:os'
import type { HostFiles } from './host-files.ts'
import { parseNumber, sanitizeBytes, sanitizeFree, sanitizeTotal } from './sanitize-bytes.ts'

export type Machine = Readonly<{ cpus: number; memory: Memory }>

/** The machine as Node reports it. */
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
    const totalBytes = sanitizeTotal(runtime.totalMemory())
    return { cpus: runtime.cpus(), memory: { totalBytes, availableBytes: sanitizeFree(runtime.freeMemory(), totalBytes) } }
  }
  const [meminfo, limits] = await Promise.all([files.read('/proc/meminfo'), readCgroupLimits(files)])
  const memory = parseMeminfo(meminfo ?? '')
  return {
    cpus: Math.min(runtime.cpus(), limits.cpus ?? Infinity),
    memory: {
      totalBytes: sanitizeTotal(Math.min(memory.totalBytes ?? Infinity, limits.memoryBytes ?? Infinity)),
      availableBytes: sanitizeBytes(Math.min(memory.availableBytes ?? Infinity, limits.memoryLeftBytes ?? Infinity)),
    },
  }
}

export type Memory = Readonly<{ totalBytes: number | null; availableBytes: number | null }>

/** Parses /proc/meminfo. Not `MemFree`, which counts the page cache as used although the kernel releases it at once. */
export function parseMeminfo(text: string): Memory {
  const kibibytes = (key: string): number | undefined => {
    const value = parseNumber(new RegExp(`^${key}:\\s*(\\S+) kB$`, 'm').exec(text)?.[1])
    return value === undefined ? undefined : value * 1024
  }
  const totalBytes = sanitizeTotal(kibibytes('MemTotal'))
  return { totalBytes, availableBytes: sanitizeFree(kibibytes('MemAvailable'), totalBytes) }
}

type CgroupLimits = Readonly<{ cpus: number | null; memoryBytes: number | null; memoryLeftBytes: number | null }>

/**
 * Limits set by a container runtime or a service manager, cgroup version 1 and 2. Limits of ancestors apply too, so the
 * whole path is read and the tightest limit wins.
 */
export async function readCgroupLimits(files: HostFiles): Promise<CgroupLimits> {
  const paths = parseProcCgroup((await files.read('/proc/self/cgroup')) ?? '')
  const levels = await Promise.all([
    ...upwards('/sys/fs/cgroup', paths.unified).map((directory) => readLevel(files, directory, version2)),
    ...upwards('/sys/fs/cgroup/memory', paths.memory).map((directory) => readLevel(files, directory, version1)),
    ...upwards('/sys/fs/cgroup/cpu', paths.cpu).map((directory) => readLevel(files, directory, version1)),
  ])
  return {
    cpus: smallest(levels.map((level) => level.cpus)),
    memoryBytes: smallest(levels.map((level) => level.memoryBytes)),
    memoryLeftBytes: smallest(levels.map((level) => level.memoryLeftBytes)),
  }
}

/** `0::/path` is version 2; `4:memory:/path` and `3:cpu,cpuacct:/path` are version 1. */
export function parseProcCgroup(text: string): { unified: string; memory: string; cpu: string } {
  const paths = { unified: '/', memory: '/', cpu: '/' }
  for (const line of text.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (controllers === undefined || path === undefined) continue
    if (controllers === '') paths.unified = path
    for (const controller of controllers.split(',')) if (controller === 'memory' || controller === 'cpu') paths[controller] = path
  }
  return paths
}

/** In a container the path is often the host's and missing below the mount: the mount itself always counts. */
function upwards(mount: string, path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..')
  return Array.from({ length: parts.length + 1 }, (_, depth) => [mount, ...parts.slice(0, depth)].join('/'))
}

interface CgroupFiles {
  readonly limit: string
  readonly usage: string
  /** Cached file pages, which the kernel reclaims before it refuses memory. */
  readonly cached: RegExp
  cpus(read: (file: string) => Promise<string | null>): Promise<number | null>
}

const version2: CgroupFiles = {
  limit: 'memory.max',
  usage: 'memory.current',
  cached: /^inactive_file (\d+)$/m,
  cpus: async (read) => {
    const [quota, period] = ((await read('cpu.max')) ?? '').trim().split(/\s+/)
    return wholeCpus(quota, period)
  },
}

const version1: CgroupFiles = {
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  cached: /^total_inactive_file (\d+)$/m,
  cpus: async (read) => wholeCpus((await read('cpu.cfs_quota_us')) ?? '', (await read('cpu.cfs_period_us')) ?? ''),
}

async function readLevel(files: HostFiles, directory: string, layout: CgroupFiles): Promise<CgroupLimits> {
  const read = (file: string): Promise<string | null> => files.read(`${directory}/${file}`)
  const cpus = await layout.cpus(read)
  // "No limit" is `max` in version 2 and nearly 2^63 in version 1: neither is a sane number of bytes.
  const memoryBytes = sanitizeBytes(parseNumber((await read(layout.limit)) ?? undefined))
  if (memoryBytes === null) return { cpus, memoryBytes: null, memoryLeftBytes: null }
  const usage = sanitizeBytes(parseNumber((await read(layout.usage)) ?? undefined))
  const cached = sanitizeBytes(parseNumber(layout.cached.exec((await read('memory.stat')) ?? '')?.[1])) ?? 0
  return { cpus, memoryBytes, memoryLeftBytes: usage === null ? null : Math.max(0, memoryBytes - Math.max(0, usage - cached)) }
}

/** Rounded down: with more threads than processor time, all of them wait. */
function wholeCpus(quota: string | undefined, period: string | undefined): number | null {
  const [used, of] = [parseNumber(quota), parseNumber(period)]
  return used === undefined || of === undefined || used <= 0 || of <= 0 ? null : Math.max(1, Math.floor(used / of))
}

function smallest(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : Math.min(...known)
}
