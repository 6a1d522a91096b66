// What this machine has, always at hand: heartbeats take the last known figures and never wait.
import type { Clock, Log } from '@muster/host'
import type { Resources } from '@muster/protocol'
import { detectCapability } from './capability.ts'
import { applyLimits, assembleResources, type Limits, noLimits, smallestUsefulBytes, summarizeGpus } from './resources.pure.ts'
import type { HostFiles } from './host-files.ts'
import { type GpuReading, readGpus } from './read-gpus.ts'
import { readMachine, type Runtime } from './read-machine.ts'
import type { RunTool } from './run-tool.ts'

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
    ready: Promise.race([
      Promise.all([machine.firstAttempt, disk.firstAttempt, gpus.firstAttempt]),
      clock.sleep(readyAfterMs, signal),
    ]).then(
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

// Keeps one reading fresh, by a loop of its own: a reading that hangs holds up nobody who looks.

interface PolledReading<T> {
  /** Resolves after the first try, whatever came of it. */
  readonly firstAttempt: Promise<void>
  /** The last reading and how long ago it was begun; null before there was one. */
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

/** The next reading begins only after the one before has ended: at most one is under way, however long it takes. */
function pollReading<T>({ what, everyMs, read, clock, log, signal }: PollOptions<T>): PolledReading<T> {
  let last: { value: T; at: number } | null = null
  let complaint = ''
  const first = Promise.withResolvers<void>()
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      const at = clock.monotonic()
      try {
        last = { value: await read(), at }
        complaint = ''
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        // Said once, not every few seconds for as long as it lasts.
        if (reason !== complaint) log.warn('a resource could not be read', { what, reason })
        complaint = reason
      }
      first.resolve()
      await clock.sleep(everyMs, signal).catch(() => undefined)
    }
  }
  void loop()
  return {
    firstAttempt: first.promise,
    latest: () => (last === null ? null : { value: last.value, ageMs: clock.monotonic() - last.at }),
  }
}
