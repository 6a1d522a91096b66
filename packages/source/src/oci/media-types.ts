// The document types that are understood, Docker's and OCI's.
export const indexTypes: ReadonlySet<string> = new Set([
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
])

export const manifestTypes: ReadonlySet<string> = new Set([
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
])

export const configTypes: ReadonlySet<string> = new Set([
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
])

export type LayerCompression = 'none' | 'gzip' | 'zstd'

const layerTypes: ReadonlyMap<string, LayerCompression> = new Map([
  ['application/vnd.oci.image.layer.v1.tar', 'none'],
  ['application/vnd.oci.image.layer.v1.tar+gzip', 'gzip'],
  ['application/vnd.oci.image.layer.v1.tar+zstd', 'zstd'],
  ['application/vnd.docker.image.rootfs.diff.tar', 'none'],
  ['application/vnd.docker.image.rootfs.diff.tar.gzip', 'gzip'],
  ['application/vnd.docker.image.rootfs.diff.tar.zstd', 'zstd'],
])

/** Null for what is no layer that can be unpacked: encrypted, foreign, or not a layer at all. */
export const layerCompression = (mediaType: string): LayerCompression | null => layerTypes.get(mediaType) ?? null

export const acceptedManifests = [...manifestTypes, ...indexTypes].join(', ')

/** Without parameters, in lower case; a type that is no manifest's says nothing (`application/json`, `text/plain`). */
export function manifestTypeOf(contentType: string | undefined): string | null {
  const type = contentType?.split(';')[0]?.trim().toLowerCase() ?? ''
  return manifestTypes.has(type) || indexTypes.has(type) ? type : null
}
