// Parses the documents of an image from an untrusted registry: shapes, limits, and exactly one meaning.
import { Digest, FleetError } from '@muster/protocol'
import { z } from 'zod'

export const largestDocument = 4 * 1024 * 1024
const mostLayers = 512
const mostManifests = 512
/** 1 TiB: more than any layer has; a larger number is wrong. */
const largestBlob = 2 ** 40

const Size = z.number().int().min(0).max(largestBlob)
const Descriptor = z.object({ mediaType: z.string().max(255), digest: Digest, size: Size })
const text = z.string().max(64)

const IndexEntry = Descriptor.extend({
  size: Size.max(largestDocument),
  platform: z.object({ os: text, architecture: text, variant: text.optional() }).optional(),
})
export type IndexEntry = z.infer<typeof IndexEntry>

const Index = z.object({ schemaVersion: z.literal(2), manifests: z.array(IndexEntry).max(mostManifests) })
const Manifest = z.object({
  schemaVersion: z.literal(2),
  config: Descriptor.extend({ size: Size.max(largestDocument) }),
  layers: z
    .array(Descriptor.extend({ annotations: z.record(z.string(), z.string()).optional() }))
    .min(1)
    .max(mostLayers),
})
export type Manifest = z.infer<typeof Manifest>

export type ImageDocument = ({ kind: 'index' } & z.infer<typeof Index>) | ({ kind: 'manifest' } & Manifest)

const Config = z.object({
  os: text.optional(),
  architecture: text.optional(),
  variant: text.optional(),
  rootfs: z.object({ type: z.literal('layers'), diff_ids: z.array(Digest).max(mostLayers) }),
})
export type Config = z.infer<typeof Config>

interface ManifestContext {
  /** The name of the document in errors. */
  readonly what: string
  readonly contentType: string | undefined
  /** The media type in the index that named it. */
  readonly describedAs?: string
  /** Content that is only fetched may have any type; content that is unpacked may not. */
  readonly purpose?: ManifestPurpose
}

export type ManifestPurpose = 'image' | 'artifact'

/** The types in the header, the index and the document, and its shape, must agree. */
export function parseManifest(bytes: Uint8Array, { what, contentType, describedAs, purpose = 'image' }: ManifestContext): ImageDocument {
  const document = parseObject(bytes, what)
  // An ambiguous document: two programs could see two images in it (CVE-2021-41190).
  if ('layers' in document && 'manifests' in document) return refuse(what, 'it has both layers and manifests')
  if (document['schemaVersion'] === 1 || 'fsLayers' in document)
    return refuse(what, "it is of Docker's old schema 1; push it again with a newer tool")
  const own = document['mediaType']
  if (own !== undefined && (typeof own !== 'string' || manifestTypeOf(own) !== own))
    return refuse(what, `its media type is ${JSON.stringify(own)}`)
  const names = new Set([own, manifestTypeOf(contentType), describedAs].filter((name) => typeof name === 'string'))
  const [type] = names
  if (type === undefined) return refuse(what, 'its media type is neither an image nor an index')
  if (names.size > 1) return refuse(what, `it has the media types ${[...names].join(' and ')}`)
  const kind = indexTypes.has(type) ? 'index' : 'manifest'
  if (kind === 'index') return { kind, ...check(Index, document, what) }
  const manifest = check(Manifest, document, what)
  return { kind, ...(purpose === 'image' ? checkImage(manifest, what) : manifest) }
}

function checkImage(manifest: Manifest, what: string): Manifest {
  if (!configTypes.has(manifest.config.mediaType)) return refuse(what, `it is not an image: its config is ${manifest.config.mediaType}`)
  const sizes = new Map<Digest, number>()
  for (const { mediaType, digest, size } of manifest.layers) {
    if (layerCompression(mediaType) === null) return refuse(what, `a layer is ${mediaType}, which cannot be unpacked`)
    if ((sizes.get(digest) ?? size) !== size) return refuse(what, `it gives the layer ${digest} two sizes`)
    sizes.set(digest, size)
  }
  return manifest
}

export function parseConfig(bytes: Uint8Array, { what, layers }: { what: string; layers: number }): Config {
  const config = check(Config, parseObject(bytes, what), what)
  const { length } = config.rootfs.diff_ids
  return length === layers ? config : refuse(what, `it describes ${length} layers and the image has ${layers}`)
}

function parseObject(bytes: Uint8Array, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  } catch {
    return refuse(what, 'it is not JSON')
  }
  return refuse(what, 'it is not a JSON object')
}

function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  return refuse(what, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'wrong'}`)
}

function refuse(what: string, why: string): never {
  throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} is refused: ${why}`.slice(0, 1000) })
}

// Chooses the image of an index for this machine.
export function chooseManifest(entries: readonly IndexEntry[], { platform, what }: { platform: Platform; what: string }): IndexEntry {
  const images = entries.filter(({ mediaType }) => manifestTypes.has(mediaType))
  let best: { entry: IndexEntry; fit: number } | null = null
  for (const entry of images) {
    const fit = entry.platform === undefined ? null : fitness(entry.platform, platform)
    if (fit !== null && (best === null || fit > best.fit)) best = { entry, fit }
  }
  if (best !== null) return best.entry
  // The only image of an index needs no platform: its config has one.
  const [only] = images
  if (only !== undefined && images.length === 1 && only.platform === undefined) return only
  const offered = [...new Set(images.flatMap(({ platform: it }) => (it === undefined ? [] : [shown(it)])))].slice(0, 20)
  return incompatible(
    `${what} has nothing for ${formatPlatform(platform)}${offered.length === 0 ? '' : `, only for ${offered.join(', ')}`}`,
  )
}

/** An image without an index names its platform in its config, or is for every machine. */
export function checkConfigPlatform({ os, architecture, variant }: Config, { platform, what }: { platform: Platform; what: string }): void {
  if (!os || !architecture) return
  if (fitness({ os, architecture, variant }, platform) === null)
    incompatible(`${what} is for ${shown({ os, architecture, variant })}, not for ${formatPlatform(platform)}`)
}

const shown = ({ os, architecture, variant }: { os: string; architecture: string; variant?: string | undefined }): string =>
  formatPlatform({ os, arch: architecture, ...(variant ? { variant } : {}) })

function incompatible(message: string): never {
  throw new FleetError({ code: 'incompatible', retry: 'never', message })
}

// Platforms in OCI's terms, and the match of a machine with an image.
export type Platform = Readonly<{ os: string; arch: string; variant?: string }>

export type PlatformEntry = Readonly<{ os: string; architecture: string; variant?: string | undefined }>

/** The default platform. */
const usualVariants: Readonly<Record<string, string>> = { amd64: 'v1', arm64: 'v8', arm: 'v7' }

const osNames: Readonly<Record<string, string>> = { win32: 'windows' }
const archNames: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' }

/** From `process.platform` and `process.arch`. */
export const platformOf = ({ platform, arch }: { platform: string; arch: string }): Platform => ({
  os: osNames[platform] ?? platform,
  arch: archNames[arch] ?? arch,
})

/** Null when the machine cannot run it; otherwise a higher number is better. A variant contains all lower ones (v8 runs v7's code, not the other way). */
export function fitness(entry: PlatformEntry, platform: Platform): number | null {
  if (entry.os !== platform.os || entry.architecture !== platform.arch) return null
  const has = levelOf(platform.variant ?? usualVariants[platform.arch])
  const needs = entry.variant === undefined || entry.variant === '' ? 0 : levelOf(entry.variant)
  if (entry.variant !== undefined && entry.variant === platform.variant) return Number.MAX_SAFE_INTEGER
  return needs === null || has === null || needs > has ? (needs === 0 ? 0 : null) : needs
}

export const formatPlatform = ({ os, arch, variant }: Platform): string => `${os}/${arch}${variant === undefined ? '' : `/${variant}`}`

const levelOf = (variant: string | undefined): number | null => {
  const [, digits] = /^v(\d{1,2})(?:\.\d{1,2})?$/.exec(variant ?? '') ?? []
  return digits === undefined ? null : Number(digits)
}

// The supported document types, Docker's and OCI's.
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

/** Null for a layer that cannot be unpacked: encrypted, foreign, or not a layer at all. */
export const layerCompression = (mediaType: string): LayerCompression | null => layerTypes.get(mediaType) ?? null

export const acceptedManifests = [...manifestTypes, ...indexTypes].join(', ')

/** Without parameters, in lower case; null for a type that is not about manifests (`application/json`, `text/plain`). */
export function manifestTypeOf(contentType: string | undefined): string | null {
  const type = contentType?.split(';')[0]?.trim().toLowerCase() ?? ''
  return manifestTypes.has(type) || indexTypes.has(type) ? type : null
}
