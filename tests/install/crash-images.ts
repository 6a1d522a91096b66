// Three versions of one small backend, as the tests of crashes install them: of several layers, one of them long enough
// to be cut in the middle, and each version with layers of the one before.
import { createHash } from 'node:crypto'
import { makeImage, tar, type ImageFixture, type TarEntry } from '@muster/testkit'

export interface Version {
  readonly version: string
  readonly image: ImageFixture
  readonly digest: string
  /** The hash of each file by its path. */
  readonly files: Readonly<Record<string, string>>
}

const weightBytes = 1_500_000
const platform = { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' }

/** Bytes that no compression or hole could stand for, the same at each run. */
function noise(seed: string, bytes: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(bytes / 32) }, (_, at) => createHash('sha256').update(`${seed} ${at}`).digest())
  return Buffer.concat(blocks).subarray(0, bytes)
}

export const hashOf = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex')

const start: TarEntry = { path: 'run.sh', data: '#!/bin/sh\nexit 0\n', mode: 0o755 }
const base: readonly TarEntry[] = [start, { path: 'lib/base', data: noise('base', 40_000) }]
const weights = (seed: string): readonly TarEntry[] => [{ path: 'lib/weights', data: noise(seed, weightBytes) }]

const description = (name: string, version: string): TarEntry => ({
  path: 'backend.json',
  data: JSON.stringify({ name, version, driver: 'openai-http', command: ['./run.sh'], health_path: '/health', env: {} }),
})

function makeVersion(version: string, layers: readonly (readonly TarEntry[])[]): Version {
  const all = [...layers, [description('echo', version), { path: 'lib/top', data: noise(version, 20_000) }]]
  const image = makeImage({ layers: all.map((entries) => tar(entries)), compression: 'none', platform })
  const files = Object.fromEntries(all.flat().map(({ path, data = '' }) => [path, hashOf(data)]))
  return { version, image, digest: image.manifest.digest, files }
}

export const first = makeVersion('1.0.0', [base, weights('first')])
/** Only its top is new. */
export const second = makeVersion('2.0.0', [base, weights('first')])
/** Its base is not new. */
export const third = makeVersion('3.0.0', [base, weights('third')])
export const versions: readonly Version[] = [first, second, third]
