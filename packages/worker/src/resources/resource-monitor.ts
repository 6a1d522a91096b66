// The resources of this machine, read in the background: heartbeats take the last reading and never wait.
import { createLoop, type Clock, type Log } from '@muster/host'
import type { Resources } from '@muster/protocol'
import { detectCapability } from './capability.ts'
import { findOwners, type ReplicaLeaders, withReplicaMemory } from './gpu-owners.ts'
import {
  applyLimits,
  assembleResources,
  type Limits,
  noLimits,
  type ProcessOwners,
  smallestCardOf,
  smallestUsefulBytes,
  summarizeGpus,
} from './resources.pure.ts'
import type { HostFiles } from './host-files.ts'
import { type GpuReading, readGpus } from './read-gpus.ts'
import { readMachine, type Runtime } from './read-machine.ts'
import type { RunTool } from './run-tool.ts'

export type MonitorDeps = Readonly<{
  dataDir: string
  files: HostFiles
  run: RunTool
  runtime: Runtime
  /** Set by the operator; then small GPUs count too. */
  forcedCapability: string | null
  limits?: Limits
  /** The processes that lead the groups of replicas. */
  leaders?: () => ReplicaLeaders
  clock: Clock
  log: Log
  signal: AbortSignal
}>

export interface ResourceMonitor {
  /** Resolves when every reading was attempted once, or after 10 s. */
  readonly ready: Promise<void>
  resources(): Resources
  capability(): string
  /** The memory of the smallest GPU; null: none, or unknown. */
  smallestCardBytes(): number | null
}

/** Longer than the timeout of a GPU tool. A file system that hangs must not keep a worker from joining. */
const readyAfterMs = 10_000
/** Free amounts become unknown when not read for this long; totals stay. */
const staleAfterMs = 60_000

export function createResourceMonitor(deps: MonitorDeps): ResourceMonitor {
  const { files, runtime, dataDir, forcedCapability, limits = noLimits, clock, log, signal } = deps
  const loop = { clock, log, signal }
  const machine = pollReading({ ...loop, what: 'the memory of this machine', everyMs: 2_000, read: () => readMachine({ files, runtime }) })
  const disk = pollReading({ ...loop, what: 'the disk space of this machine', everyMs: 10_000, read: () => files.space(dataDir) })
  const gpus = pollReading({ ...loop, what: 'the GPUs of this machine', everyMs: 10_000, read: completeGpuReading(deps) })
  const smallestGpuBytes = forcedCapability === null ? smallestUsefulBytes : 0

  const readings = () => ({
    machine: withoutStaleFigures(machine, (value) => ({ ...value, memory: { ...value.memory, availableBytes: null } })),
    disk: withoutStaleFigures(disk, (value) => (value === null ? null : { ...value, availableBytes: null })),
    gpus: withoutStaleFigures(gpus, (value) => ({ ...value, gpus: value.gpus.map((gpu) => ({ ...gpu, freeBytes: null })) })),
  })

  return {
    ready: Promise.race([
      Promise.all([machine.firstAttempt, disk.firstAttempt, gpus.firstAttempt]),
      clock.sleep(readyAfterMs, signal),
    ]).then(
      () => undefined,
      () => undefined,
    ),
    resources: () => ({
      ...applyLimits(assembleResources(readings(), smallestGpuBytes, gpus.latest()?.value.owners), limits),
      ...ageOf(machine, gpus),
    }),
    smallestCardBytes: () => smallestCardOf(gpus.latest()?.value.gpus ?? [], smallestGpuBytes),
    capability: () => {
      if (forcedCapability !== null) return forcedCapability
      const reading = gpus.latest()?.value ?? { gpus: [], cudaMajor: null, kfd: false, vulkan: false }
      const { vendor } = summarizeGpus(reading.gpus, { totalBytes: null, availableBytes: null }, smallestGpuBytes)
      return detectCapability({ ...reading, os: runtime.os, arch: runtime.arch, gpuVendor: vendor })
    },
  }
}

/** The age of the older reading: memory that a replica took or released since then is not in it. */
function ageOf(machine: PolledReading<unknown>, gpus: PolledReading<GpuReading>): Pick<Resources, 'memory_age_ms'> {
  const ofGpus = gpus.latest()
  const ages = [machine.latest()?.ageMs, ofGpus !== null && ofGpus.value.gpus.length > 0 ? ofGpus.ageMs : undefined]
  const known = ages.filter((age) => age !== undefined)
  return known.length === 0 ? {} : { memory_age_ms: Math.ceil(Math.max(...known)) }
}

/** The last reading, without free amounts when it is stale. */
function withoutStaleFigures<T, U>(reading: PolledReading<T>, withoutFree: (value: T) => U): T | U | null {
  const latest = reading.latest()
  if (latest === null) return null
  return latest.ageMs > staleAfterMs ? withoutFree(latest.value) : latest.value
}

type OwnedGpus = GpuReading & Readonly<{ owners: ProcessOwners }>
const noOwners: ProcessOwners = new Map()

/** After a complete reading, an incomplete one (a tool that hangs) counts as a failure and does not replace it. */
function completeGpuReading({ files, run, runtime, leaders, log }: MonitorDeps): () => Promise<OwnedGpus> {
  let wasComplete = false
  return async () => {
    const found = await readGpus({ files, run, os: runtime.os, arch: runtime.arch })
    const owners = found.gpus.length === 0 || runtime.os !== 'linux' ? noOwners : await findOwners(files, leaders?.() ?? noOwners)
    const reading: OwnedGpus = { ...found, owners, gpus: await withReplicaMemory(found.gpus, files, owners) }
    if (reading.failures.length === 0) {
      wasComplete = true
      return reading
    }
    const reason = reading.failures.join('; ')
    if (wasComplete) throw new Error(reason)
    log.warn('GPU tool failed', { reason })
    return reading
  }
}

interface PolledReading<T> {
  /** Resolves after the first attempt, also when it failed. */
  readonly firstAttempt: Promise<void>
  /** The last reading and its age, counted from the start of the read; null before the first one. */
  latest(): { readonly value: T; readonly ageMs: number } | null
}

type PollOptions<T> = Readonly<{
  what: string
  everyMs: number
  read: () => Promise<T>
  clock: Clock
  log: Log
  signal: AbortSignal
}>

/** Polls in a loop of its own, so that a read that hangs delays no other. At most one read is in progress. */
function pollReading<T>({ what, everyMs, read, clock, log, signal }: PollOptions<T>): PolledReading<T> {
  let last: { value: T; at: number } | null = null
  const first = Promise.withResolvers<void>()
  const loop = createLoop({ what: `cannot read ${what}; retrying`, clock, log, retryMs: everyMs })
  const round = async (): Promise<number> => {
    const at = clock.monotonic()
    try {
      last = { value: await read(), at }
      return everyMs
    } finally {
      first.resolve()
    }
  }
  void loop.run(round, signal)
  return {
    firstAttempt: first.promise,
    latest: () => (last === null ? null : { value: last.value, ageMs: clock.monotonic() - last.at }),
  }
}
