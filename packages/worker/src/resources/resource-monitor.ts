// What this machine has, always at hand: heartbeats take the last known figures and never wait.
import type { Clock, Log } from '@muster/host'
import type { Resources } from '@muster/protocol'
import { detectCapability } from '../capability.ts'
import { applyLimits, noLimits, type Limits } from './apply-limits.ts'
import { assembleResources } from './assemble-resources.ts'
import type { HostFiles } from './host-files.ts'
import { pollReading, type PolledReading } from './keep-fresh.ts'
import { readGpus, type GpuReading } from './read-gpus.ts'
import { readMachine, type Runtime } from './read-machine.ts'
import type { RunTool } from './run-tool.ts'
import { smallestUsefulBytes, summarizeGpus } from './summarise-gpus.ts'

export type MonitorDeps = Readonly<{
  dataDir: string
  files: HostFiles
  run: RunTool
  runtime: Runtime
  /** Set by the operator, who then also answers for small GPUs. */
  forcedCapability: string | null
  limits?: Limits
  clock: Clock
  log: Log
  signal: AbortSignal
}>

export interface ResourceMonitor {
  /** Resolves when everything was tried once, or something hangs. */
  readonly ready: Promise<void>
  resources(): Resources
  capability(): string
}

/** Longer than a GPU tool's timeout. A file system that hangs must not keep a worker from joining. */
const readyAfterMs = 10_000
/** What is free changes by the second: not read for this long, it is unknown. What there is in total stays. */
const staleAfterMs = 60_000

export function createResourceMonitor(deps: MonitorDeps): ResourceMonitor {
  const { files, runtime, dataDir, forcedCapability, limits = noLimits, clock, log, signal } = deps
  const loop = { clock, log, signal }
  const machine = pollReading({ ...loop, what: 'memory', everyMs: 2_000, read: () => readMachine({ files, runtime }) })
  const disk = pollReading({ ...loop, what: 'disk', everyMs: 10_000, read: () => files.space(dataDir) })
  const gpus = pollReading({ ...loop, what: 'gpus', everyMs: 10_000, read: completeGpuReading(deps) })
  const smallestGpuBytes = forcedCapability === null ? smallestUsefulBytes : 0

  const readings = () => ({
    machine: withoutStaleFigures(machine, (value) => ({ ...value, memory: { ...value.memory, availableBytes: null } })),
    disk: withoutStaleFigures(disk, (value) => (value === null ? null : { ...value, availableBytes: null })),
    gpus: withoutStaleFigures(gpus, (value) => ({ ...value, gpus: value.gpus.map((gpu) => ({ ...gpu, freeBytes: null })) })),
  })

  return {
    ready: Promise.race([Promise.all([machine.firstAttempt, disk.firstAttempt, gpus.firstAttempt]), clock.sleep(readyAfterMs, signal)]).then(
      () => undefined,
      () => undefined,
    ),
    resources: () => ({ ...applyLimits(assembleResources(readings(), smallestGpuBytes), limits), ...ageOf(machine, gpus) }),
    capability: () => {
      if (forcedCapability !== null) return forcedCapability
      const reading = gpus.latest()?.value ?? { gpus: [], cudaMajor: null, kfd: false, vulkan: false }
      const { vendor } = summarizeGpus(reading.gpus, { totalBytes: null, availableBytes: null }, smallestGpuBytes)
      return detectCapability({ ...reading, os: runtime.os, arch: runtime.arch, gpuVendor: vendor })
    },
  }
}

/** Of the older one: what a replica took or gave back since then is not in it. */
function ageOf(machine: PolledReading<unknown>, gpus: PolledReading<GpuReading>): Pick<Resources, 'memory_age_ms'> {
  const ofGpus = gpus.latest()
  const ages = [machine.latest()?.ageMs, ofGpus !== null && ofGpus.value.gpus.length > 0 ? ofGpus.ageMs : undefined]
  const known = ages.filter((age) => age !== undefined)
  return known.length === 0 ? {} : { memory_age_ms: Math.ceil(Math.max(...known)) }
}

/** The last reading, without what has gone stale. */
function withoutStaleFigures<T, U>(reading: PolledReading<T>, withoutFree: (value: T) => U): T | U | null {
  const latest = reading.latest()
  if (latest === null) return null
  return latest.ageMs > staleAfterMs ? withoutFree(latest.value) : latest.value
}

/** Once there was a reading that nothing was missing from, one with gaps (a tool that hangs) does not replace it. */
function completeGpuReading({ files, run, runtime, log }: MonitorDeps): () => Promise<GpuReading> {
  let wasComplete = false
  return async () => {
    const reading = await readGpus({ files, run, os: runtime.os, arch: runtime.arch })
    if (reading.failures.length === 0) {
      wasComplete = true
      return reading
    }
    const reason = reading.failures.join('; ')
    if (wasComplete) throw new Error(reason)
    log.warn('a GPU tool gave no answer', { reason })
    return reading
  }
}
