// The graphics cards that the Linux kernel knows, with or without a vendor's tool.
import type { Gpu, GpuVendor } from './gpu.ts'
import type { HostFiles } from './host-files.ts'
import { parseNumber, saneFree, saneTotal } from './sane-bytes.ts'

const root = '/sys/class/drm'
const vendors: Readonly<Record<string, GpuVendor>> = { '0x10de': 'nvidia', '0x1002': 'amd', '0x8086': 'intel' }

/**
 * Server boards' display chips (other vendors) and Intel's integrated graphics, which are always at
 * 00:02.0, are left out: there is one in almost every machine, and no backend is built for them.
 */
export async function readDrmCards(files: HostFiles): Promise<readonly Gpu[]> {
  const cards = (await files.list(root)).filter((entry) => /^card\d+$/.test(entry)).toSorted()
  const found = await Promise.all(cards.map((card) => readCard(files, card)))
  return found.filter((card) => card !== null)
}

async function readCard(files: HostFiles, card: string): Promise<Gpu | null> {
  const device = `${root}/${card}/device`
  const vendor = vendors[(await files.read(`${device}/vendor`))?.trim().toLowerCase() ?? '']
  if (vendor === undefined) return null
  if (vendor === 'intel' && (await files.link(device))?.endsWith(':00:02.0')) return null
  const totalBytes = saneTotal(parseNumber((await files.read(`${device}/mem_info_vram_total`)) ?? undefined))
  const used = parseNumber((await files.read(`${device}/mem_info_vram_used`)) ?? undefined)
  const freeBytes = totalBytes === null || used === undefined ? null : saneFree(totalBytes - used, totalBytes)
  return { vendor, name: card, totalBytes, freeBytes, unified: false }
}
