// The GPU memory of replicas and of other programs, from the tools and the kernel of a fake machine.
import { silentLog } from '@muster/host'
import { ReplicaId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { type FakeFiles, fakeFiles } from '../../test/fake-files.ts'
import { createManualClock } from '../../test/manual-clock.ts'
import { createResourceMonitor } from './resource-monitor.ts'
import type { RunTool } from './run-tool.ts'

const replica = ReplicaId.parse('r-1')
const [MiB, GiB] = [2 ** 20, 2 ** 30]
const stat = (pid: number, group: number): string => `${pid} (python3 (x) y) S 1 ${group} ${group} 0 -1`

async function read(host: FakeFiles, run: RunTool) {
  const ending = new AbortController()
  const monitor = createResourceMonitor({
    ...{ dataDir: '/data', files: fakeFiles(host), run, forcedCapability: null, clock: createManualClock(), log: silentLog },
    runtime: { os: 'linux', arch: 'x64', cpus: () => 8, totalMemory: () => 0, freeMemory: () => 0 },
    leaders: () => new Map([[100, replica]]),
    signal: ending.signal,
  })
  await monitor.ready
  ending.abort()
  return monitor.resources().gpus
}

it('nvidia-smi lists processes of each card; those in the group of a replica have its name', async () => {
  const gpus = await read(
    {
      files: { '/dev/nvidiactl': '', '/proc/100/stat': stat(100, 100), '/proc/101/stat': stat(101, 100), '/proc/200/stat': stat(200, 200) },
    },
    async ({ args }) => ({
      kind: 'ok',
      stdout: args[0]?.includes('compute-apps')
        ? 'GPU-b, 101, 2048, python3\nGPU-b, 200, 4096, other\n'
        : '0, 24576, 0, 24000, 550.1, GPU-a, L4\n1, 24576, 6144, 18000, 550.1, GPU-b, L4\n',
    }),
  )
  expect(gpus).toEqual([
    { index: 0, uuid: 'GPU-a', name: 'L4', vendor: 'nvidia', total: 24 * GiB, free: 24_000 * MiB, processes: [] },
    {
      ...{ index: 1, uuid: 'GPU-b', name: 'L4', vendor: 'nvidia', total: 24 * GiB, free: 18_000 * MiB },
      processes: [
        { pid: 200, bytes: 4 * GiB, name: 'other' },
        { pid: 101, bytes: 2 * GiB, name: 'python3', replica_id: replica },
      ],
    },
  ])
})

it('without a tool that lists processes, the kernel reports those of replicas, each client once', async () => {
  const info = (client: number, kib: number): string => `drm-client-id: ${client}\ndrm-pdev: 0000:03:00.0\ndrm-memory-vram: ${kib} KiB\n`
  const device = '/sys/class/drm/card0/device'
  const gpus = await read(
    {
      files: {
        ...{ '/dev/kfd': '', '/dev/dri/renderD128': '', [`${device}/vendor`]: '0x1002', [`${device}/unique_id`]: 'a1b2\n' },
        ...{ [`${device}/mem_info_vram_total`]: String(16 * GiB), [`${device}/mem_info_vram_used`]: String(GiB) },
        ...{ '/proc/100/stat': stat(100, 100), '/proc/100/comm': 'llama\n', '/proc/200/stat': stat(200, 200) },
        ...{ '/proc/100/fdinfo/5': info(7, 1_024), '/proc/100/fdinfo/6': info(7, 1_024), '/proc/100/fdinfo/9': info(8, 2_048) },
        '/proc/200/fdinfo/3': info(9, 4_096),
      },
      links: { [device]: '../../../0000:03:00.0' },
    },
    async () => ({ kind: 'absent' }),
  )
  expect(gpus).toMatchObject([
    { uuid: 'a1b2', vendor: 'amd', total: 16 * GiB, processes: [{ pid: 100, bytes: 3 * MiB, name: 'llama', replica_id: replica }] },
  ])
})
