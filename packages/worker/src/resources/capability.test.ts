import { expect, it } from 'vitest'
import { detectCapability, type CapabilityFacts } from './capability.ts'

const facts = (over: Partial<CapabilityFacts>): CapabilityFacts => ({
  os: 'linux',
  arch: 'x64',
  gpuVendor: null,
  cudaMajor: null,
  kfd: false,
  vulkan: false,
  ...over,
})

it.each<[string, Partial<CapabilityFacts>, string]>([
  ['no GPU', {}, 'default'],
  ['no GPU, whatever drivers are installed', { kfd: true, vulkan: true, cudaMajor: 12 }, 'default'],
  ['NVIDIA with a CUDA 13 driver', { gpuVendor: 'nvidia', cudaMajor: 13 }, 'nvidia-cuda-13'],
  ['NVIDIA with a driver newer than we know', { gpuVendor: 'nvidia', cudaMajor: 14 }, 'nvidia-cuda-13'],
  ['NVIDIA with a CUDA 12 driver', { gpuVendor: 'nvidia', cudaMajor: 12 }, 'nvidia-cuda-12'],
  ['NVIDIA with an old driver', { gpuVendor: 'nvidia', cudaMajor: 11 }, 'nvidia'],
  ['NVIDIA whose driver is unknown', { gpuVendor: 'nvidia' }, 'nvidia'],
  ['Jetson Orin', { gpuVendor: 'nvidia', arch: 'arm64', cudaMajor: 12 }, 'nvidia-l4t-cuda-12'],
  ['DGX Spark', { gpuVendor: 'nvidia', arch: 'arm64', cudaMajor: 13 }, 'nvidia-l4t-cuda-13'],
  ['an older Jetson', { gpuVendor: 'nvidia', arch: 'arm64', cudaMajor: 11 }, 'nvidia-l4t'],
  ['AMD with ROCm', { gpuVendor: 'amd', kfd: true, vulkan: true }, 'amd'],
  ['AMD without ROCm, with Vulkan', { gpuVendor: 'amd', vulkan: true }, 'vulkan'],
  ['AMD without either', { gpuVendor: 'amd' }, 'default'],
  ['Intel', { gpuVendor: 'intel' }, 'intel'],
  ['Apple silicon', { os: 'darwin', arch: 'arm64', gpuVendor: 'apple' }, 'metal'],
])('%s is %3$s', (_, given, want) => {
  expect(detectCapability(facts(given))).toBe(want)
})
