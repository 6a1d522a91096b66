// Jetson and its relatives: an NVIDIA GPU that shares the machine's memory, often without nvidia-smi.
import type { HostFiles } from './host-files.ts'

export type Tegra = Readonly<{ cudaMajor: number | null }>

export async function readTegra(files: HostFiles): Promise<Tegra | null> {
  const [release, compatible] = await Promise.all([files.read('/etc/nv_tegra_release'), files.read('/proc/device-tree/compatible')])
  if (release !== null) return { cudaMajor: parseTegraRelease(release) }
  return isTegraCompatible(compatible ?? '') ? { cudaMajor: null } : null
}

/** `# R36 (release), REVISION: 4.3, GCID: …`: the release of Linux for Tegra decides the CUDA that comes with it. */
export function parseTegraRelease(text: string): number | null {
  const release = Number(/^#?\s*R(\d+)\b/.exec(text)?.[1])
  if (release >= 38) return 13
  if (release >= 36) return 12
  if (release >= 34) return 11
  return null
}

/** A list of NUL-terminated names, e.g. `nvidia,p3737-0000+p3701-0005`, `nvidia,tegra234`. */
export const isTegraCompatible = (text: string): boolean => text.split('\0').some((name) => name.trim().startsWith('nvidia,tegra'))
