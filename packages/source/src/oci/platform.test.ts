import { Digest } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { chooseManifest, type IndexEntry, type Platform, platformOf } from './manifest.ts'

const type = 'application/vnd.oci.image.manifest.v1+json'
const entry = (name: string, mediaType = type): IndexEntry => {
  const [os = '', architecture = '', variant] = name.split('/')
  const digest = Digest.parse(`sha256:${Buffer.from(name).toString('hex').padEnd(64, '0').slice(0, 64)}`)
  return { mediaType, digest, size: 1, ...(name === 'none' ? {} : { platform: { os, architecture, ...(variant ? { variant } : {}) } }) }
}
const platform = (name: string): Platform => {
  const [os = '', arch = '', variant] = name.split('/')
  return { os, arch, ...(variant ? { variant } : {}) }
}

describe('E17 which image of an index', () => {
  it.each([
    ['linux/amd64', ['linux/arm64', 'linux/amd64'], 'linux/amd64'],
    ['linux/amd64', ['unknown/unknown', 'linux/amd64', 'linux/amd64/v3'], 'linux/amd64'],
    ['linux/amd64/v3', ['linux/amd64', 'linux/amd64/v2', 'linux/amd64/v3', 'linux/amd64/v4'], 'linux/amd64/v3'],
    ['linux/amd64/v3', ['linux/amd64', 'linux/amd64/v2', 'linux/amd64/v4'], 'linux/amd64/v2'],
    ['linux/arm64', ['linux/arm64/v8', 'linux/arm/v7'], 'linux/arm64/v8'],
    ['linux/arm64/v8', ['linux/arm64'], 'linux/arm64'],
    ['linux/arm', ['linux/arm/v5', 'linux/arm/v6', 'linux/arm/v7'], 'linux/arm/v7'],
    ['linux/arm/v6', ['linux/arm/v5', 'linux/arm/v6', 'linux/arm/v7'], 'linux/arm/v6'],
    ['linux/riscv64', ['linux/riscv64'], 'linux/riscv64'],
    ['linux/riscv64/odd', ['linux/riscv64/odd', 'linux/riscv64'], 'linux/riscv64/odd'],
    ['darwin/arm64', ['linux/arm64', 'darwin/arm64'], 'darwin/arm64'],
    ['linux/amd64', ['none'], 'none'],
  ])('%s takes of %j %s', (machine, offered, taken) => {
    const chosen = chooseManifest(
      offered.map((name) => entry(name)),
      { platform: platform(machine), what: 'it' },
    )
    expect(chosen).toEqual(entry(taken))
  })

  it.each([
    ['linux/amd64', ['linux/arm64']],
    ['linux/amd64', ['linux/amd64/v3']],
    ['linux/amd64', ['windows/amd64', 'darwin/amd64']],
    ['linux/arm/v6', ['linux/arm/v7']],
    ['linux/arm', ['linux/arm64']],
    ['linux/amd64', ['unknown/unknown']],
    ['linux/amd64', ['none', 'none']],
    ['linux/amd64', []],
  ])('%s is incompatible with %j', (machine, offered) => {
    expect(() =>
      chooseManifest(
        offered.map((name) => entry(name)),
        { platform: platform(machine), what: 'it' },
      ),
    ).toThrow(
      expect.objectContaining({
        failure: { code: 'incompatible', retry: 'never', message: expect.stringContaining(`nothing for ${machine}`) },
      }),
    )
  })

  it('lists the available platforms', () => {
    expect(() =>
      chooseManifest([entry('linux/arm64/v8'), entry('linux/s390x')], { platform: platform('linux/amd64'), what: 'it' }),
    ).toThrow('it has nothing for linux/amd64, only for linux/arm64/v8, linux/s390x')
  })

  it('an index inside the index is no image', () => {
    expect(() =>
      chooseManifest([entry('linux/amd64', 'application/vnd.oci.image.index.v1+json')], { platform: platform('linux/amd64'), what: 'it' }),
    ).toThrow('nothing for linux/amd64')
  })

  it('knows the names that Node has for machines', () => {
    expect(platformOf({ platform: 'linux', arch: 'x64' })).toEqual({ os: 'linux', arch: 'amd64' })
    expect(platformOf({ platform: 'darwin', arch: 'arm64' })).toEqual({ os: 'darwin', arch: 'arm64' })
    expect(platformOf({ platform: 'win32', arch: 'ia32' })).toEqual({ os: 'windows', arch: '386' })
  })
})
