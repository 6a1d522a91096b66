import { describe, expect, it } from 'vitest'
import { cudaMajor, parseFdinfo, parseNvidiaApps, parseNvidiaProcVersion, parseNvidiaSmi, parseRocmSmi } from './gpu-tools.pure.ts'

const MiB = 2 ** 20
const gpu = (name: string, totalMiB: number | null, freeMiB: number | null, unified = false) => ({
  vendor: 'nvidia',
  name,
  totalBytes: totalMiB === null ? null : totalMiB * MiB,
  freeBytes: freeMiB === null ? null : freeMiB * MiB,
  unified,
})

describe('parseNvidiaSmi', () => {
  it.each([
    ['one card', '0, 24576, 1024, 23028, 535.104.05, NVIDIA GeForce RTX 4090\n', [gpu('NVIDIA GeForce RTX 4090', 24576, 23028)]],
    [
      'several cards, with Windows line ends',
      '0, 81559, 4, 81079, 550.54.15, NVIDIA H100 80GB HBM3\r\n1, 81559, 80000, 1083, 550.54.15, NVIDIA H100 80GB HBM3\r\n',
      [gpu('NVIDIA H100 80GB HBM3', 81559, 81079), gpu('NVIDIA H100 80GB HBM3', 81559, 1083)],
    ],
    [
      'a card in MIG mode, whose use is not shown',
      '0, 40960, [N/A], [N/A], 535.104.05, NVIDIA A100-SXM4-40GB',
      [gpu('NVIDIA A100-SXM4-40GB', 40960, null)],
    ],
    ['MIG without permission', '0, 40960, [Insufficient Permissions], [Insufficient Permissions], 535.1, A100', [gpu('A100', 40960, null)]],
    [
      'free memory from used memory, when only that is reported',
      '0, 8192, 192, [Not Supported], 470.57.02, Quadro',
      [gpu('Quadro', 8192, 8000)],
    ],
    ['DGX Spark: no memory to itself', '0, [N/A], [N/A], [N/A], 580.95.05, NVIDIA GB10', [gpu('NVIDIA GB10', null, null, true)]],
    ['Jetson Orin', '0, [N/A], [N/A], [N/A], 540.4.0, Orin (nvgpu)', [gpu('Orin (nvgpu)', null, null, true)]],
    ['Jetson Thor', '0, [Not Supported], [Not Supported], [Not Supported], 580.00, NVIDIA Thor', [gpu('NVIDIA Thor', null, null, true)]],
    [
      'F16 a broken card is unknown, not shared and not zero',
      '0, [Unknown Error], [Unknown Error], [GPU is lost], 535.1, NVIDIA L4',
      [gpu('NVIDIA L4', null, null)],
    ],
    [
      'F16 zero, negative and absurd totals are unknown',
      '0, 0, 0, 0, 535.1, A\n1, -1, 0, 5, 535.1, B\n2, 99999999999999, 0, 1, 535.1, C',
      [gpu('A', null, 0), gpu('B', null, 5), gpu('C', null, 1)],
    ],
    ['F16 more free than there is, and more used than there is, is unknown', '0, 1000, 2000, 3000, 535.1, A', [gpu('A', 1000, null)]],
    ['a name with a comma', '0, 1000, 1, 999, 535.1, Tesla T4, engineering sample', [gpu('Tesla T4, engineering sample', 1000, 999)]],
    ['no device', 'No devices were found\n', []],
    [
      'an error on stdout',
      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n",
      [],
    ],
    ['a field that this driver does not know', 'Field "memory.used" is not a valid field to query.\n\n', []],
    ['nothing', '', []],
    ['a line cut short', '0, 24576, 10', []],
  ])('reads %s', (_, stdout, want) => {
    expect(parseNvidiaSmi(stdout).gpus).toEqual(want)
  })

  it.each([
    ['0, 1, 0, 1, 535.104.05, A', '535.104.05'],
    ['0, 1, 0, 1, [N/A], A\n1, 1, 0, 1, 580.65, B', '580.65'],
    ['No devices were found', null],
  ])('takes the driver from %j', (stdout, want) => {
    expect(parseNvidiaSmi(stdout).driver).toBe(want)
  })
})

describe('parseNvidiaProcVersion', () => {
  it.each([
    [
      'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0',
      '535.104.05',
    ],
    ['NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)  Sun Jul 27', '580.65.06'],
    ['GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)', null],
    ['', null],
  ])('reads %j', (text, want) => {
    expect(parseNvidiaProcVersion(text)).toBe(want)
  })
})

describe('cudaMajor', () => {
  it.each([
    ['580.65.06', 13],
    ['610.10', 13],
    ['525.60.13', 12],
    ['575.51.03', 12],
    ['470.57.02', 11],
    ['390.157', null],
    ['nonsense', null],
    [null, null],
  ])('of driver %s is %s', (driver, want) => {
    expect(cudaMajor(driver)).toBe(want)
  })
})

const card = (name: string, totalBytes: number | null, freeBytes: number | null) => ({
  vendor: 'amd',
  name,
  totalBytes,
  freeBytes,
  unified: false,
})

it.each([
  [
    'a card beside a processor’s own graphics',
    '{"card0": {"VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "692142080"}, "card1": {"VRAM Total Memory (B)": "67108864", "VRAM Total Used Memory (B)": "26079232"}}',
    [card('card0', 17163091968, 16470949888), card('card1', 67108864, 41029632)],
  ],
  [
    'warnings around the JSON',
    'WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n{"card0": {"VRAM Total Memory (B)": "8573157376", "VRAM Total Used Memory (B)": "7573157376"}}\n',
    [card('card0', 8573157376, 1000000000)],
  ],
  [
    'F16 figures that are missing or not numbers',
    '{"card0": {"VRAM Total Memory (B)": "N/A"}, "card1": {}}',
    [card('card0', null, null), card('card1', null, null)],
  ],
  [
    'F16 more used than the total',
    '{"card0": {"VRAM Total Memory (B)": "100", "VRAM Total Used Memory (B)": "200"}}',
    [card('card0', 100, null)],
  ],
  ['entries that are not cards', '{"system": {"Driver version": "6.7.0"}, "card0": "broken"}', []],
  ['an error', 'ERROR:root:Driver not initialized (amdgpu not found in modules)\n', []],
  ['JSON that is not an object', '[1, 2]', []],
  ['half of the JSON', '{"card0": {"VRAM Total Memory (B)": "171', []],
  ['nothing', '', []],
])('reads %s', (_, stdout, want) => {
  expect(parseRocmSmi(stdout)).toEqual(want)
})

const uuid = 'GPU-2c1f8a7e-0b7d-4a52-8f5c-1a2b3c4d5e6f'

it('reads the UUID of a card', () => {
  const { gpus } = parseNvidiaSmi(`0, 24576, 1024, 23028, 535.104.05, ${uuid}, NVIDIA L4, sample`)
  expect(gpus).toEqual([{ ...gpu('NVIDIA L4, sample', 24576, 23028), uuid }])
})

it.each<[string, string, object]>([
  [
    'processes by card',
    `${uuid}, 4711, 512, /usr/bin/python3\n${uuid}, 12, 1024, llama, server\n`,
    {
      [uuid]: [
        { pid: 4711, bytes: 512 * MiB, name: '/usr/bin/python3' },
        { pid: 12, bytes: 1024 * MiB, name: 'llama, server' },
      ],
    },
  ],
  ['an amount that is not shown', `${uuid}, 4711, [N/A], [Not Found]`, { [uuid]: [{ pid: 4711, bytes: null, name: '[Not Found]' }] }],
  ['no process', '', {}],
  ['an error, and lines of another form', `No devices were found\n${uuid}, -1, 5, x\n0, 1000, 0, 900, 535.1, L4`, {}],
])('of nvidia-smi reads %s', (_, stdout, want) => {
  expect(Object.fromEntries(parseNvidiaApps(stdout))).toEqual(want)
})

it.each<[string, string, object | null]>([
  [
    'amdgpu',
    'pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t77\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t2048 KiB\ndrm-memory-gtt:\t9 KiB\n',
    { device: '0000:03:00.0', client: '77', bytes: 2 * MiB },
  ],
  ['xe', 'drm-client-id: 5\ndrm-pdev: 0000:0a:00.0\ndrm-resident-vram0: 3 MiB\n', { device: '0000:0a:00.0', client: '5', bytes: 3 * MiB }],
  ['a file that is no GPU', 'pos:\t0\nflags:\t02\nmnt_id:\t9\n', null],
  ['an amount that is none', 'drm-client-id: 5\ndrm-pdev: 0000:0a:00.0\ndrm-memory-vram: much\n', null],
])('of fdinfo reads %s', (_, text, want) => {
  expect(parseFdinfo(text)).toEqual(want)
})
