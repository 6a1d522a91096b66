import { describe, expect, it } from 'vitest'
import { fakeFiles, type FakeFiles } from '../../test/fake-files.ts'
import type { Gpu } from './gpu-tools.pure.ts'
import { type GpuReading, isTegraCompatible, parseTegraRelease, readGpus } from './read-gpus.ts'
import type { ToolOutcome } from './run-tool.ts'

type TestMachine = FakeFiles & { tools?: Record<string, ToolOutcome>; os?: NodeJS.Platform; arch?: string }
type Want = Partial<GpuReading>

const read = ({ tools = {}, os = 'linux', arch = 'x64', ...host }: TestMachine): Promise<GpuReading> =>
  readGpus({ files: fakeFiles(host), run: async ({ program }) => tools[program] ?? { kind: 'absent' }, os, arch })

const said = (stdout: string): ToolOutcome => ({ kind: 'ok', stdout })
const stuck: ToolOutcome = { kind: 'failed', reason: 'nvidia-smi did not answer' }
const gpu = (vendor: Gpu['vendor'], name: string, over: Partial<Gpu> = {}): Gpu => ({
  vendor,
  name,
  totalBytes: null,
  freeBytes: null,
  unified: false,
  ...over,
})
const drm = (card: number, vendor: string, more: Record<string, string> = {}) =>
  Object.fromEntries(
    Object.entries({ vendor: `${vendor}\n`, ...more }).map(([file, text]) => [`/sys/class/drm/card${card}/device/${file}`, text]),
  )
const render = { '/dev/dri/renderD128': '' }

it.each<[string, TestMachine, Want]>([
  ['a machine without a GPU', { files: { '/sys/class/drm/version': 'drm 1.1.0' } }, { gpus: [], cudaMajor: null, failures: [] }],
  ['a server board’s display chip: none', { files: { ...drm(0, '0x1a03'), ...render } }, { gpus: [] }],
  [
    'NVIDIA by its tool, counted once',
    { tools: { 'nvidia-smi': said('0, 1000, 0, 900, 535.1, L4') }, files: { ...drm(0, '0x10de'), '/dev/nvidiactl': '' } },
    { gpus: [gpu('nvidia', 'L4', { totalBytes: 1000 * 2 ** 20, freeBytes: 900 * 2 ** 20 })], cudaMajor: 12 },
  ],
  [
    'NVIDIA whose tool hangs: reported, with unknown memory',
    {
      tools: { 'nvidia-smi': stuck },
      files: {
        ...drm(0, '0x10de'),
        '/dev/nvidiactl': '',
        '/proc/driver/nvidia/version': 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sat\n',
      },
    },
    { gpus: [gpu('nvidia', 'card0')], cudaMajor: 13, failures: ['nvidia-smi did not answer'] },
  ],
  [
    'NVIDIA without its tool and without a display device',
    { files: { '/dev/nvidiactl': '' } },
    { gpus: [gpu('nvidia', 'NVIDIA GPU')], cudaMajor: null },
  ],
  ['a container that sees the host’s NVIDIA card but may not use it', { files: drm(0, '0x10de') }, { gpus: [] }],
  [
    'Jetson without nvidia-smi',
    { arch: 'arm64', files: { '/etc/nv_tegra_release': '# R35 (release), REVISION: 4.1' } },
    { gpus: [gpu('nvidia', 'Tegra', { unified: true })], cudaMajor: 11 },
  ],
  [
    'Jetson in a container: known by its device tree',
    { arch: 'arm64', files: { '/proc/device-tree/compatible': 'nvidia,p3701\0nvidia,tegra234\0' } },
    { gpus: [gpu('nvidia', 'Tegra', { unified: true })], cudaMajor: null },
  ],
  [
    'Jetson with nvidia-smi',
    {
      arch: 'arm64',
      tools: { 'nvidia-smi': said('0, [N/A], [N/A], [N/A], 540.4.0, something new') },
      files: { '/etc/nv_tegra_release': '# R36 (release)' },
    },
    { gpus: [gpu('nvidia', 'something new', { unified: true })], cudaMajor: 12 },
  ],
  [
    'AMD by the kernel, without starting a tool',
    { files: { ...drm(1, '0x1002', { mem_info_vram_total: '1000\n', mem_info_vram_used: '400\n' }), '/dev/kfd': '', ...render } },
    { gpus: [gpu('amd', 'card1', { totalBytes: 1000, freeBytes: 600 })], kfd: true, failures: [] },
  ],
  [
    'AMD by rocm-smi, where the kernel gives no figures',
    {
      tools: { 'rocm-smi': said('{"card0": {"VRAM Total Memory (B)": "500", "VRAM Total Used Memory (B)": "100"}}') },
      files: { ...drm(0, '0x1002'), '/dev/kfd': '' },
    },
    { gpus: [gpu('amd', 'card0', { totalBytes: 500, freeBytes: 400 })] },
  ],
  ['AMD without any figures', { files: { ...drm(0, '0x1002'), '/dev/kfd': '' } }, { gpus: [gpu('amd', 'card0')] }],
  [
    'Intel’s integrated graphics: none',
    { files: { ...drm(0, '0x8086'), ...render }, links: { '/sys/class/drm/card0/device': '../../../0000:00:02.0' } },
    { gpus: [] },
  ],
  [
    'an Intel card, its memory unknown',
    {
      files: { ...drm(0, '0x8086'), ...drm(1, '0x8086'), ...render },
      links: { '/sys/class/drm/card0/device': '../../../0000:00:02.0', '/sys/class/drm/card1/device': '../../../0000:03:00.0' },
    },
    { gpus: [gpu('intel', 'card1')] },
  ],
  [
    'a Vulkan driver',
    { files: { ...drm(0, '0x1002'), ...render, '/usr/share/vulkan/icd.d/radeon_icd.x86_64.json': '{}' } },
    { vulkan: true, kfd: false },
  ],
  ['Vulkan in software: none', { files: { ...render, '/usr/share/vulkan/icd.d/lvp_icd.x86_64.json': '{}' } }, { vulkan: false }],
  ['Apple silicon', { os: 'darwin', arch: 'arm64' }, { gpus: [gpu('apple', 'Apple silicon', { unified: true })] }],
  ['an Intel Mac', { os: 'darwin', arch: 'x64' }, { gpus: [] }],
])('%s', async (_, given, want) => {
  expect(await read(given)).toMatchObject(want)
})

describe('parseTegraRelease', () => {
  it.each([
    ['# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025', 12],
    ['# R35 (release), REVISION: 4.1, GCID: 33958178', 11],
    ['# R38 (release), REVISION: 2.0', 13],
    ['# R32 (release), REVISION: 7.1', null],
    ['', null],
  ])('of %j is CUDA %s', (text, want) => {
    expect(parseTegraRelease(text)).toBe(want)
  })
})

describe('isTegraCompatible', () => {
  it.each([
    ['nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0', true],
    ['raspberrypi,4-model-b\0brcm,bcm2711\0', false],
    ['', false],
  ])('of %j is %s', (text, want) => {
    expect(isTegraCompatible(text)).toBe(want)
  })
})
