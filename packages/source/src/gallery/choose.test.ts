import { BackendName } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { channelOf, chooseBackend, chooseConcrete, findBackend, fitsNode } from './choose.ts'
import { parseGallery } from './parse-gallery.ts'

const all = { 'nvidia-cuda-12': 'cuda12', nvidia: 'nv', 'nvidia-l4t': 'l4t', amd: 'rocm', default: 'plain', cpu: 'slow' }

describe('chooseConcrete', () => {
  it.each([
    ['the exact capability', all, 'nvidia-cuda-12', 'cuda12'],
    ['default, not the vendor, where the exact one is missing', all, 'nvidia-cuda-13', 'plain'],
    ['cpu, not the vendor, where there is no default', { cpu: 'slow', nvidia: 'nv' }, 'nvidia-cuda-13', 'slow'],
    ['the vendor where exact, default and cpu are missing', { nvidia: 'nv', amd: 'rocm' }, 'nvidia-cuda-13', 'nv'],
    ['the family of a Jetson where exact, default and cpu are missing', { nvidia: 'nv', 'nvidia-l4t': 'l4t' }, 'nvidia-l4t-cuda-12', 'l4t'],
    ['nothing for a Jetson where only builds of another processor exist', { nvidia: 'nv' }, 'nvidia-l4t-cuda-12', null],
    ['default for a Jetson, not its family', all, 'nvidia-l4t-cuda-12', 'plain'],
    ['another vendor', all, 'amd', 'rocm'],
    ['default without a GPU', all, 'default', 'plain'],
    ['default where the vendor is missing', all, 'intel', 'plain'],
    ['cpu where there is no default', { cpu: 'slow', nvidia: 'nv' }, 'vulkan', 'slow'],
    ['default before cpu', { cpu: 'slow', default: 'plain' }, 'metal', 'plain'],
    ['nothing', { nvidia: 'nv' }, 'amd', null],
    ['nothing for a name that every object has', { nvidia: 'nv' }, 'constructor', null],
    ['nothing for a part of a word', { nvid: 'nv' }, 'nvidia', null],
  ])('takes %s', (_, capabilities, capability, want) => {
    // The names are plain here; parseGallery is what brands them.
    expect(chooseConcrete({ capabilities } as unknown as Parameters<typeof chooseConcrete>[0], capability)).toBe(want)
  })
})

it.each([
  ['cuda12-llama-cpp', 'release'],
  ['cuda12-llama-cpp-development', 'development'],
  ['development-tools', 'release'],
])('%s belongs to the channel %s', (name, channel) => {
  expect(channelOf({ name: BackendName.parse(name) })).toBe(channel)
})

const galleries = [
  {
    name: 'first',
    ...parseGallery(`
- {name: engine, capabilities: {default: cpu-engine, nvidia-cuda-12: cuda12-engine, metal: gone}}
- {name: cpu-engine, uri: "h/b:cpu-engine"}
- {name: cuda12-engine, uri: "h/b:gpu-nvidia-cuda-12-engine"}
- {name: ring, capabilities: {default: ring2}}
- {name: ring2, capabilities: {default: ring}}
- {name: bare}
- {name: mlx, capabilities: {default: cpu-mlx, vulkan: arm64-mlx}}
- {name: cpu-mlx, uri: "h/b:cpu-mlx"}
- {name: arm64-mlx, uri: "h/b:arm64-mlx"}
- {name: only-gpu, capabilities: {nvidia: cuda12-engine}}`),
  },
  { name: 'second', ...parseGallery('- {name: cpu-engine, uri: "other/b:1"}\n- {name: extra, uri: "h/extra:1"}') },
]
const node = (capability: string, os = 'linux', arch = 'amd64') => ({ capability, os, arch })

describe('findBackend', () => {
  it.each([
    ['cpu-engine', 'first', 'h/b:cpu-engine'],
    ['second@cpu-engine', 'second', 'other/b:1'],
    ['extra', 'second', 'h/extra:1'],
  ])('finds %s in the gallery %s', (name, gallery, uri) => {
    const found = findBackend(galleries, name)
    expect([found?.gallery.name, found?.entry.uri]).toEqual([gallery, uri])
  })

  it.each(['nothing', 'third@extra', 'first@extra', '@extra', 'CPU-ENGINE', ''])('does not find %j', (name) => {
    expect(findBackend(galleries, name)).toBeNull()
  })
})

describe('chooseBackend', () => {
  it.each([
    ['a meta backend by capability', 'engine', node('nvidia-cuda-12'), 'cuda12-engine'],
    ['a meta backend without a GPU', 'engine', node('default'), 'cpu-engine'],
    ['a build that a meta backend names, whatever its name says', 'mlx', node('default'), 'cpu-mlx'],
    ['a concrete one unchanged', 'cpu-engine', node('nvidia'), 'cpu-engine'],
  ])('finds %s', (_, wanted, traits, want) => {
    expect(chooseBackend(galleries, wanted, traits)).toMatchObject({
      kind: 'found',
      requested: { name: wanted },
      found: { entry: { name: want } },
    })
  })

  it.each([
    ['nothing of that name', 'nothing', node('default'), { kind: 'unknown', reason: 'no gallery offers nothing' }],
    [
      'a meta backend that names what is not there',
      'engine',
      node('metal', 'darwin', 'arm64'),
      { kind: 'unknown', reason: 'resolves to gone' },
    ],
    ['a meta backend of meta backends', 'ring', node('default'), { kind: 'unknown', reason: 'resolves to ring2' }],
    ['a meta backend with nothing for the node', 'only-gpu', node('amd'), { kind: 'unfit', reason: 'nothing for amd' }],
    ['an entry that says nothing', 'bare', node('default'), { kind: 'unfit', reason: 'names nothing to install' }],
    ['a build of another processor', 'mlx', node('vulkan'), { kind: 'unfit', reason: 'built for arm64' }],
    ['a concrete one for other machines', 'cuda12-engine', node('default'), { kind: 'unfit', reason: 'needs an NVIDIA GPU' }],
  ])('says why there is %s', (_, wanted, traits, want) => {
    const choice = chooseBackend(galleries, wanted, traits)
    expect(choice.kind).toBe(want.kind)
    expect('reason' in choice ? choice.reason : '').toContain(want.reason)
  })
})

describe('chooseBackend names the lookups in all galleries', () => {
  const main = {
    name: 'main',
    ...parseGallery(
      '- {name: a, uri: "h/a:1"}\n- {name: m, capabilities: {default: b}}\n- {name: n, capabilities: {default: a, amd: gone}}',
    ),
  }
  const more = { name: 'more', ...parseGallery('- {name: b, uri: "h/b:1"}\n- {name: a, uri: "h/other:1"}') }
  it.each([
    ['a name that is found', 'a', 'default', [['a', 'main']]],
    ['a meta backend and its entry in the same gallery', 'n', 'default', [['n', 'main']]],
    [
      'a meta backend and its entry in another gallery',
      'm',
      'default',
      [
        ['m', 'main'],
        ['b', 'more'],
      ],
    ],
    [
      'a meta backend whose entry is nowhere',
      'n',
      'amd',
      [
        ['n', 'main'],
        ['gone', null],
      ],
    ],
    ['a name that is nowhere', 'x', 'default', [['x', null]]],
  ])('%s', (_, wanted, capability, lookups) => {
    const choice = chooseBackend([main, more], wanted, node(capability))
    expect(choice.lookups.map(({ name, gallery }) => [name, gallery?.name ?? null])).toEqual(lookups)
  })
})

describe('fitsNode', () => {
  it.each([
    ['cpu-llama', 'h/b:latest-cpu-llama', node('default'), true],
    ['cuda12-vllm', 'h/b:1', node('nvidia-cuda-12'), true],
    ['cuda12-vllm', 'h/b:1', node('amd'), false],
    ['vllm', 'h/b:latest-gpu-rocm-hipblas-vllm', node('amd'), true],
    ['vllm', 'h/b:latest-gpu-rocm-hipblas-vllm', node('nvidia'), false],
    ['intel-sycl-f16-vllm', 'h/b:1', node('intel'), true],
    ['intel-sycl-f16-vllm', 'h/b:1', node('default'), false],
    ['nvidia-l4t-vllm', 'h/b:1', node('nvidia-l4t-cuda-12', 'linux', 'arm64'), true],
    ['nvidia-l4t-vllm', 'h/b:1', node('nvidia-cuda-12'), false],
    ['metal-llama', 'h/b:1', node('metal', 'darwin', 'arm64'), true],
    ['mlx', 'h/b:1', node('default'), false],
    ['whisper', 'h/b:cpu-whisper', node('default'), true],
    ['tool-amd64', 'h/b:1', node('default'), true],
    ['tool-amd64', 'h/b:1', node('default', 'linux', 'arm64'), false],
    ['tool-aarch64', 'h/b:1', node('default', 'linux', 'arm64'), true],
    ['vulkan-llama', 'h/b:1', node('default'), true],
  ])('%s (%s) on %o: %s', (name, uri, traits, fits) => {
    const entry = { name, uri } as unknown as Parameters<typeof fitsNode>[0]
    expect(fitsNode(entry, traits).fits).toBe(fits)
  })
})
