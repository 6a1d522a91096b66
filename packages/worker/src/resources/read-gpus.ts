// GPUs of this machine that a backend can use. Device files decide, not the kernel's list: in a container the cards of the
// host are listed without being usable.
import {
  cudaMajor,
  type Gpu,
  type GpuVendor,
  nvidiaApps,
  nvidiaSmi,
  parseNvidiaApps,
  parseNvidiaProcVersion,
  parseNvidiaSmi,
  parseRocmSmi,
  rocmSmi,
} from './gpu-tools.pure.ts'
import type { HostFiles } from './host-files.ts'
import type { RunTool } from './run-tool.ts'
import { parseNumber, sanitizeFree, sanitizeTotal } from './sanitize-bytes.ts'

export type GpuReading = Readonly<{
  gpus: readonly Gpu[]
  /** The newest CUDA that the driver runs; null without one. */
  cudaMajor: number | null
  /** The kernel interface of ROCm is present. */
  kfd: boolean
  /** A Vulkan driver for real hardware is installed. */
  vulkan: boolean
  /** Failures of installed tools: figures may be missing. */
  failures: readonly string[]
}>

export type GpuSources = Readonly<{ files: HostFiles; run: RunTool; os: NodeJS.Platform; arch: string }>

const none: GpuReading = { gpus: [], cudaMajor: null, kfd: false, vulkan: false, failures: [] }

export async function readGpus(sources: GpuSources): Promise<GpuReading> {
  const { files, os, arch } = sources
  if (os === 'darwin' && arch === 'arm64') {
    return { ...none, gpus: [{ vendor: 'apple', name: 'Apple silicon', totalBytes: null, freeBytes: null, unified: true }] }
  }
  if (os !== 'linux') return none
  const [cards, render, kfd] = await Promise.all([readDrmCards(files), hasRenderNode(files), files.exists('/dev/kfd')])
  const [nvidia, amd, vulkan] = await Promise.all([
    readNvidia(sources, cards),
    kfd || render ? readAmd(sources, cards) : { gpus: [], failures: [] },
    render ? hasVulkanDriver(files) : false,
  ])
  return {
    gpus: [...nvidia.gpus, ...amd.gpus, ...(render ? cards.filter((card) => card.vendor === 'intel') : [])],
    cudaMajor: nvidia.cudaMajor,
    kfd,
    vulkan,
    failures: [...nvidia.failures, ...amd.failures],
  }
}

async function readNvidia({ files, run }: GpuSources, cards: readonly Gpu[]): Promise<Pick<GpuReading, 'gpus' | 'cudaMajor' | 'failures'>> {
  const [outcome, tegra] = await Promise.all([run(nvidiaSmi), readTegra(files)])
  const failures = outcome.kind === 'failed' ? [outcome.reason] : []
  const parsed = parseNvidiaSmi(outcome.kind === 'ok' ? outcome.stdout : '')
  if (parsed.gpus.length > 0) {
    const gpus = tegra === null ? parsed.gpus : parsed.gpus.map((gpu) => ({ ...gpu, unified: gpu.totalBytes === null }))
    return { gpus: await withNvidiaApps(gpus, run), cudaMajor: tegra?.cudaMajor ?? cudaMajor(parsed.driver), failures }
  }
  const unreported: Gpu = { vendor: 'nvidia', name: 'NVIDIA GPU', totalBytes: null, freeBytes: null, unified: false }
  if (tegra !== null) return { gpus: [{ ...unreported, name: 'Tegra', unified: true }], cudaMajor: tegra.cudaMajor, failures }
  // nvidia-smi is missing or stuck, but the driver works: the card is present, its figures are unknown.
  if (!(await files.exists('/dev/nvidiactl'))) return { gpus: [], cudaMajor: null, failures }
  const listed = cards.filter((card) => card.vendor === 'nvidia')
  const driver = parseNvidiaProcVersion((await files.read('/proc/driver/nvidia/version')) ?? '')
  return { gpus: listed.length > 0 ? listed : [unreported], cudaMajor: cudaMajor(driver), failures }
}

/** Without the list of processes the figures still count. */
async function withNvidiaApps(gpus: readonly Gpu[], run: RunTool): Promise<readonly Gpu[]> {
  if (!gpus.some(({ uuid }) => uuid !== undefined)) return gpus
  const outcome = await run(nvidiaApps)
  if (outcome.kind !== 'ok') return gpus
  const apps = parseNvidiaApps(outcome.stdout)
  return gpus.map((gpu) => (gpu.uuid === undefined ? gpu : { ...gpu, processes: apps.get(gpu.uuid) ?? [] }))
}

/** The kernel's figures cost nothing; rocm-smi starts a Python process and runs only without them. */
async function readAmd({ run }: GpuSources, cards: readonly Gpu[]): Promise<Pick<GpuReading, 'gpus' | 'failures'>> {
  const listed = cards.filter((card) => card.vendor === 'amd')
  if (listed.length > 0 && listed.every((card) => card.totalBytes !== null)) return { gpus: listed, failures: [] }
  const outcome = await run(rocmSmi)
  const parsed = parseRocmSmi(outcome.kind === 'ok' ? outcome.stdout : '')
  return { gpus: parsed.length > 0 ? parsed : listed, failures: outcome.kind === 'failed' ? [outcome.reason] : [] }
}

const hasRenderNode = async (files: HostFiles): Promise<boolean> =>
  (await files.list('/dev/dri')).some((entry) => /^renderD\d+$/.test(entry))

/** lavapipe (`lvp_icd…`) is a software Vulkan, slower than the CPU build of a backend. */
async function hasVulkanDriver(files: HostFiles): Promise<boolean> {
  const drivers = await Promise.all(['/usr/share/vulkan/icd.d', '/etc/vulkan/icd.d'].map((directory) => files.list(directory)))
  return drivers.flat().some((file) => file.endsWith('.json') && !file.startsWith('lvp_'))
}

// Graphics cards listed by the Linux kernel, with or without a vendor's tool.

const root = '/sys/class/drm'
const vendors: Readonly<Record<string, GpuVendor>> = { '0x10de': 'nvidia', '0x1002': 'amd', '0x8086': 'intel' }

/**
 * Server boards' display chips (other vendors) and Intel's integrated graphics, which are always at
 * 00:02.0, are left out: there is one in almost every machine, and no backend is built for them.
 */
async function readDrmCards(files: HostFiles): Promise<readonly Gpu[]> {
  const cards = (await files.list(root)).filter((entry) => /^card\d+$/.test(entry)).toSorted()
  const found = await Promise.all(cards.map((card) => readCard(files, card)))
  return found.filter((card) => card !== null)
}

async function readCard(files: HostFiles, card: string): Promise<Gpu | null> {
  const device = `${root}/${card}/device`
  const vendor = vendors[(await files.read(`${device}/vendor`))?.trim().toLowerCase() ?? '']
  if (vendor === undefined) return null
  const address = (await files.link(device))?.split('/').at(-1)
  if (vendor === 'intel' && address?.endsWith(':00:02.0')) return null
  const totalBytes = sanitizeTotal(parseNumber((await files.read(`${device}/mem_info_vram_total`)) ?? undefined))
  const used = parseNumber((await files.read(`${device}/mem_info_vram_used`)) ?? undefined)
  const freeBytes = totalBytes === null || used === undefined ? null : sanitizeFree(totalBytes - used, totalBytes)
  const uuid = /^[0-9a-f]{1,32}$/.exec((await files.read(`${device}/unique_id`))?.trim() ?? '')?.[0]
  return {
    ...{ vendor, name: card, totalBytes, freeBytes, unified: false },
    ...(uuid === undefined ? {} : { uuid }),
    ...(address === undefined ? {} : { device: address }),
  }
}

// Tegra (Jetson and relatives): an NVIDIA GPU that shares the machine's memory, often without nvidia-smi.

type Tegra = Readonly<{ cudaMajor: number | null }>

async function readTegra(files: HostFiles): Promise<Tegra | null> {
  const [release, compatible] = await Promise.all([files.read('/etc/nv_tegra_release'), files.read('/proc/device-tree/compatible')])
  if (release !== null) return { cudaMajor: parseTegraRelease(release) }
  return isTegraCompatible(compatible ?? '') ? { cudaMajor: null } : null
}

/** `# R36 (release), REVISION: 4.3, GCID: …`: the release of Linux for Tegra determines its CUDA version. */
export function parseTegraRelease(text: string): number | null {
  const release = Number(/^#?\s*R(\d+)\b/.exec(text)?.[1])
  if (release >= 38) return 13
  if (release >= 36) return 12
  if (release >= 34) return 11
  return null
}

/** A list of NUL-terminated names, e.g. `nvidia,p3737-0000+p3701-0005`, `nvidia,tegra234`. */
export const isTegraCompatible = (text: string): boolean => text.split('\0').some((name) => name.trim().startsWith('nvidia,tegra'))
