import { silentLog } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { fakeFiles } from '../../test/fake-files.ts'
import { createManualClock } from '../../test/manual-clock.ts'
import { recordingLog } from '../../test/recording-log.ts'
import type { HostFiles } from './host-files.ts'
import type { Runtime } from './read-machine.ts'
import { createResourceMonitor, type MonitorDeps } from './resource-monitor.ts'
import { noLimits } from './resources.pure.ts'
import type { ToolOutcome } from './run-tool.ts'

const GiB = 2 ** 30
const runtime: Runtime = { os: 'linux', arch: 'x64', cpus: () => 8, totalMemory: () => 0, freeMemory: () => 0 }
const files = fakeFiles({
  files: { '/proc/meminfo': `MemTotal: ${16 * 2 ** 20} kB\nMemAvailable: ${8 * 2 ** 20} kB\n`, '/dev/nvidiactl': '' },
  space: { totalBytes: 100 * GiB, availableBytes: 40 * GiB },
})
const card: ToolOutcome = { kind: 'ok', stdout: '0, 24576, 1024, 23552, 550.1, NVIDIA L4' }
const stuck: ToolOutcome = { kind: 'failed', reason: 'nvidia-smi did not answer' }

function world(over: Partial<MonitorDeps> = {}) {
  const clock = createManualClock()
  const ending = new AbortController()
  const log = recordingLog()
  const monitor = createResourceMonitor({
    dataDir: '/data',
    files,
    run: async ({ program }) => (program === 'nvidia-smi' ? card : { kind: 'absent' }),
    runtime,
    forcedCapability: null,
    clock,
    log,
    signal: ending.signal,
    ...over,
  })
  return { clock, monitor, log, end: () => ending.abort() }
}

describe('resources', () => {
  it('are complete after the first reading', async () => {
    const { monitor, end } = world()
    await monitor.ready
    expect(monitor.resources()).toEqual({
      cpus: 8,
      total_ram: 16 * GiB,
      available_ram: 8 * GiB,
      total_vram: 24 * GiB,
      available_vram: 23 * GiB,
      total_disk: 100 * GiB,
      available_disk: 40 * GiB,
      gpu_vendor: 'nvidia',
      unified_memory: false,
      gpus: [{ index: 0, name: 'NVIDIA L4', vendor: 'nvidia', total: 24 * GiB, free: 23 * GiB }],
      memory_age_ms: expect.any(Number),
    })
    expect(monitor.capability()).toBe('nvidia-cuda-12')
    end()
  })

  it('are lowered to the limits of the operator', async () => {
    const { monitor, end } = world({ limits: { ...noLimits, maxReplicas: 3, maxMemoryBytes: 2 * GiB } })
    await monitor.ready
    expect(monitor.resources()).toMatchObject({ total_ram: 2 * GiB, available_ram: 2 * GiB, total_vram: 24 * GiB, max_replicas: 3 })
    end()
  })

  it('F16 are unknown, not zero, before the first reading', () => {
    const { monitor, end } = world()
    expect(monitor.resources()).toMatchObject({ cpus: null, total_ram: null, total_vram: null, available_disk: null, gpu_vendor: null })
    end()
  })

  it('F16 of a GPU whose tool starts to hang stay for a minute; then free memory is unknown, and the total stays', async () => {
    let outcome: ToolOutcome = card
    const { clock, monitor, log, end } = world({ run: async ({ program }) => (program === 'nvidia-smi' ? outcome : { kind: 'absent' }) })
    await monitor.ready
    outcome = stuck
    await clock.advance(50_000)
    expect(monitor.resources()).toMatchObject({ total_vram: 24 * GiB, available_vram: 23 * GiB })
    await clock.advance(20_000)
    expect(monitor.resources()).toMatchObject({ total_vram: 24 * GiB, available_vram: null, gpu_vendor: 'nvidia', available_ram: 8 * GiB })
    expect(monitor.capability()).toBe('nvidia-cuda-12')
    // At the first failure, and every 30 s while it lasts.
    expect(log.lines).toHaveLength(3)
    outcome = card
    await clock.advance(20_000)
    expect(monitor.resources()).toMatchObject({ available_vram: 23 * GiB })
    end()
  })

  it('F16 of a GPU whose tool never answered are unknown, and the GPU is reported', async () => {
    const { monitor, end } = world({ run: async () => stuck })
    await monitor.ready
    expect(monitor.resources()).toMatchObject({ gpu_vendor: 'nvidia', total_vram: null, available_vram: null })
    expect(monitor.capability()).toBe('nvidia')
    end()
  })

  it('do not wait for a reading that hangs, and it is not repeated meanwhile', async () => {
    let asked = 0
    const hanging: HostFiles = { ...files, space: () => (asked++, new Promise(() => undefined)) }
    const { clock, monitor, end } = world({ files: hanging })
    let isReady = false
    void monitor.ready.then(() => (isReady = true))
    await clock.advance(300_000)
    expect(isReady).toBe(true)
    expect(asked).toBe(1)
    expect(monitor.resources()).toMatchObject({ total_disk: null, available_disk: null, available_ram: 8 * GiB })
    end()
  })
})

describe('a configured capability', () => {
  it('overrides the detected one, and small GPUs count too', async () => {
    const small: ToolOutcome = { kind: 'ok', stdout: '0, 2048, 48, 2000, 470.1, GT 1030' }
    const run = async ({ program }: { program: string }) => (program === 'nvidia-smi' ? small : ({ kind: 'absent' } as const))
    const found = world({ run })
    const forced = world({ run, forcedCapability: 'vulkan', log: silentLog })
    await Promise.all([found.monitor.ready, forced.monitor.ready])
    expect([found.monitor.capability(), found.monitor.resources().total_vram]).toEqual(['default', null])
    expect([forced.monitor.capability(), forced.monitor.resources().total_vram]).toEqual(['vulkan', 2 * GiB])
    found.end()
    forced.end()
  })
})
