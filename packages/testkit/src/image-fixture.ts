// Real OCI and Docker images, in memory: what a builder would push, byte for byte the same each time.
import { createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { Digest } from '@muster/protocol'

export interface ImageDocument {
  readonly bytes: Buffer
  readonly digest: Digest
  readonly mediaType: string
}

export interface ImageFixture {
  readonly manifest: ImageDocument
  readonly config: ImageDocument
  readonly layers: readonly (ImageDocument & { readonly diffId: Digest })[]
  readonly platform: ImagePlatform
}

export interface ImagePlatform {
  readonly os: string
  readonly architecture: string
  readonly variant?: string
}

export interface ImageOptions {
  /** The tar of each layer, or any bytes where nobody unpacks them. */
  readonly layers: readonly Uint8Array[]
  readonly compression?: 'gzip' | 'zstd' | 'none'
  readonly platform?: ImagePlatform
  readonly flavour?: 'oci' | 'docker'
}

const types = {
  oci: {
    index: 'application/vnd.oci.image.index.v1+json',
    manifest: 'application/vnd.oci.image.manifest.v1+json',
    config: 'application/vnd.oci.image.config.v1+json',
    gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
    zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
    none: 'application/vnd.oci.image.layer.v1.tar',
  },
  docker: {
    index: 'application/vnd.docker.distribution.manifest.list.v2+json',
    manifest: 'application/vnd.docker.distribution.manifest.v2+json',
    config: 'application/vnd.docker.container.image.v1+json',
    gzip: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
    zstd: 'application/vnd.docker.image.rootfs.diff.tar.zstd',
    none: 'application/vnd.docker.image.rootfs.diff.tar',
  },
} as const

const amd64: ImagePlatform = { os: 'linux', architecture: 'amd64' }

export function makeImage({ layers, compression = 'gzip', platform = amd64, flavour = 'oci' }: ImageOptions): ImageFixture {
  const packed = layers.map((tar) => ({ ...makeDocument(compress(tar, compression), types[flavour][compression]), diffId: digestOf(tar) }))
  const config = makeDocument(
    json({ ...platform, config: {}, rootfs: { type: 'layers', diff_ids: packed.map(({ diffId }) => diffId) } }),
    types[flavour].config,
  )
  const manifest = makeDocument(
    json({ schemaVersion: 2, mediaType: types[flavour].manifest, config: describe(config), layers: packed.map(describe) }),
    types[flavour].manifest,
  )
  return { manifest, config, layers: packed, platform }
}

export function makeIndex(images: readonly ImageFixture[], flavour: 'oci' | 'docker' = 'oci'): ImageDocument {
  const manifests = images.map(({ manifest, platform }) => ({ ...describe(manifest), platform }))
  return makeDocument(json({ schemaVersion: 2, mediaType: types[flavour].index, manifests }), types[flavour].index)
}

export const makeDocument = (bytes: Buffer, mediaType: string): ImageDocument => ({ bytes, digest: digestOf(bytes), mediaType })

export const digestOf = (bytes: Uint8Array): Digest => Digest.parse(`sha256:${createHash('sha256').update(bytes).digest('hex')}`)

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

const describe = ({ bytes, digest, mediaType }: ImageDocument): { mediaType: string; digest: string; size: number } => ({
  mediaType,
  digest,
  size: bytes.length,
})

function compress(tar: Uint8Array, compression: 'gzip' | 'zstd' | 'none'): Buffer {
  switch (compression) {
    case 'gzip':
      return gzipSync(tar)
    case 'zstd':
      return zstdCompressSync(tar)
    case 'none':
      return Buffer.from(tar)
  }
}
