// Parses the output of nvidia-smi and rocm-smi.
import { z } from 'zod'
import { parseNumber, sanitizeBytes, sanitizeFree, sanitizeTotal } from './sanitize-bytes.ts'

export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple'

/** One GPU as tools and kernel files describe it. Null means unknown. */
export type Gpu = Readonly<{
  vendor: GpuVendor
  name: string
  totalBytes: number | null
  freeBytes: number | null
  /** It uses the machine's memory and has none of its own. */
  unified: boolean
  /** As the tools name it. */
  uuid?: string
  /** The address of the device, for cards that the kernel lists. */
  device?: string
  /** Left out when nothing reports them. */
  processes?: readonly GpuUser[]
}>

/** A process with memory of a GPU. Null: the amount is unknown. */
export type GpuUser = Readonly<{ pid: number; bytes: number | null; name: string }>

/** The name is last, because it is the only field that may contain a comma. */
export const nvidiaSmi = {
  program: 'nvidia-smi',
  args: ['--query-gpu=index,memory.total,memory.used,memory.free,driver_version,uuid,name', '--format=csv,noheader,nounits'],
} as const

export type NvidiaReading = Readonly<{ gpus: readonly Gpu[]; driver: string | null }>

/** GPUs without memory of their own: Jetson (nvgpu), Thor, DGX Spark. */
const sharesMemory = /\bGB10\b|\bnvgpu\b|\b(?:Orin|Xavier|Thor|Tegra)\b/i

const mebibyte = 2 ** 20

/**
 * nvidia-smi prints errors to stdout too, and any figure may be `[N/A]`, `[Not Supported]`, `[Insufficient Permissions]`,
 * `[Unknown Error]` or `[GPU is lost]`.
 */
export function parseNvidiaSmi(stdout: string): NvidiaReading {
  const gpus: Gpu[] = []
  let driver: string | null = null
  for (const line of stdout.split('\n')) {
    const [index, total, used, free, version, ...rest] = line.split(',').map((field) => field.trim())
    if (index === undefined || !/^\d+$/.test(index) || rest.length === 0) continue
    const uuid = uuidForm.exec(rest[0] ?? '')?.[0]
    const name = (uuid === undefined ? rest : rest.slice(1)).join(', ')
    gpus.push({ ...describe({ total, used, free, name }), ...(uuid === undefined ? {} : { uuid }) })
    if (version !== undefined && /^\d+(?:\.\d+)*$/.test(version)) driver ??= version
  }
  return { gpus, driver }
}

const uuidForm = /^(?:GPU|MIG)-[\w/-]{1,60}$/

/** The name is last, as above. */
export const nvidiaApps = {
  program: 'nvidia-smi',
  args: ['--query-compute-apps=gpu_uuid,pid,used_memory,process_name', '--format=csv,noheader,nounits'],
} as const

/** Processes by the UUID of their GPU. In a container a process may have another number than nvidia-smi prints. */
export function parseNvidiaApps(stdout: string): ReadonlyMap<string, readonly GpuUser[]> {
  const found = new Map<string, GpuUser[]>()
  for (const line of stdout.split('\n').slice(0, maxProcesses)) {
    const [uuid = '', pid = '', used, ...name] = line.split(',').map((field) => field.trim())
    if (!uuidForm.test(uuid) || !/^[1-9]\d{0,9}$/.test(pid)) continue
    const mebibytes = parseNumber(used)
    const bytes = mebibytes === undefined ? null : sanitizeBytes(mebibytes * mebibyte)
    found.set(uuid, [...(found.get(uuid) ?? []), { pid: Number(pid), bytes, name: name.join(', ').slice(0, 128) }])
  }
  return found
}
const maxProcesses = 4_096

/** The memory of a process on each device, from one file of /proc/<pid>/fdinfo; null: not a GPU. `client` counts once. */
export function parseFdinfo(text: string): Readonly<{ device: string; client: string; bytes: number }> | null {
  const field = (key: string): string | undefined => new RegExp(`^${key}:\\s*(\\S.*)$`, 'm').exec(text)?.[1]?.trim()
  const [device, client] = [field('drm-pdev'), field('drm-client-id')]
  const [, amount, unit] = /^(\d+)(?: (KiB|MiB))?$/.exec(field('drm-memory-vram') ?? field('drm-resident-vram0') ?? '') ?? []
  const bytes = sanitizeBytes(Number(amount) * (unit === 'MiB' ? mebibyte : unit === 'KiB' ? 1_024 : 1))
  return device === undefined || client === undefined || amount === undefined || bytes === null ? null : { device, client, bytes }
}

function describe(row: { total: string | undefined; used: string | undefined; free: string | undefined; name: string }): Gpu {
  const [total, used, free] = [row.total, row.used, row.free].map((text) => {
    const mebibytes = parseNumber(text)
    return mebibytes === undefined ? undefined : mebibytes * mebibyte
  })
  const totalBytes = sanitizeTotal(total)
  // `free` excludes memory reserved by the driver; the difference to `used` does not.
  const freeBytes =
    sanitizeFree(free, totalBytes) ?? (totalBytes === null || used === undefined ? null : sanitizeFree(totalBytes - used, totalBytes))
  return { vendor: 'nvidia', name: row.name, totalBytes, freeBytes, unified: totalBytes === null && sharesMemory.test(row.name) }
}

/** `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …`, also `… Open Kernel Module for x86_64  580.65.06 …`. */
export function parseNvidiaProcVersion(text: string): string | null {
  return /^NVRM version:.*?\s(\d{3,}(?:\.\d+)+)\s/m.exec(`${text}\n`)?.[1] ?? null
}

/** The newest CUDA that a driver supports, which matters more than the installed toolkit. */
export function cudaMajor(driver: string | null): number | null {
  const major = Number(driver?.split('.')[0])
  if (major >= 580) return 13
  if (major >= 525) return 12
  if (major >= 450) return 11
  return null
}

export const rocmSmi = { program: 'rocm-smi', args: ['--showmeminfo', 'vram', '--json'] } as const

const Cards = z.record(z.string(), z.unknown())
const Card = z.record(z.string(), z.unknown())

/** Warnings may precede or follow the JSON. */
export function parseRocmSmi(stdout: string): readonly Gpu[] {
  const cards = Cards.safeParse(jsonIn(stdout))
  if (!cards.success) return []
  return Object.entries(cards.data).flatMap(([key, value]): Gpu[] => {
    const card = Card.safeParse(value)
    if (!/^card\d+$/.test(key) || !card.success) return []
    const totalBytes = sanitizeTotal(figure(card.data['VRAM Total Memory (B)']))
    const used = figure(card.data['VRAM Total Used Memory (B)'])
    const freeBytes = totalBytes === null || used === undefined ? null : sanitizeFree(totalBytes - used, totalBytes)
    return [{ vendor: 'amd', name: key, totalBytes, freeBytes, unified: false }]
  })
}

const figure = (value: unknown): number | undefined =>
  typeof value === 'string' ? parseNumber(value) : typeof value === 'number' ? value : undefined

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1))
  } catch {
    return null
  }
}
