// The capability of this machine: one word that selects the builds of a backend in galleries.
import type { GpuVendor } from './gpu-tools.pure.ts'

export type CapabilityFacts = Readonly<{
  os: string
  arch: string
  /** The vendor of the usable GPUs; null without one. */
  gpuVendor: GpuVendor | null
  cudaMajor: number | null
  kfd: boolean
  vulkan: boolean
}>

export function detectCapability(facts: CapabilityFacts): string {
  switch (facts.gpuVendor) {
    case 'apple':
      return 'metal'
    case 'nvidia':
      return nvidia(facts)
    case 'amd':
      // ROCm builds need the kernel's compute interface; without it the same card still does Vulkan.
      return facts.kfd ? 'amd' : facts.vulkan ? 'vulkan' : 'default'
    case 'intel':
      return 'intel'
    case null:
      return 'default'
  }
}

/** Galleries have their builds for NVIDIA on ARM under `l4t`, for all machines, not only Jetson. */
function nvidia({ os, arch, cudaMajor }: CapabilityFacts): string {
  const family = os === 'linux' && arch === 'arm64' ? 'nvidia-l4t' : 'nvidia'
  if (cudaMajor !== null && cudaMajor >= 13) return `${family}-cuda-13`
  return cudaMajor === 12 ? `${family}-cuda-12` : family
}
