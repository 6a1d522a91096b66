// The documents of an image, as they come from a registry that may lie: shapes, limits, and one meaning only.
import { Digest, FleetError } from '@muster/protocol'
import { z } from 'zod'
import { configTypes, indexTypes, layerCompression, manifestTypeOf } from './media-types.ts'

export const largestDocument = 4 * 1024 * 1024
const mostLayers = 512
const mostManifests = 512
/** 1 TiB: more than any layer has; a larger number is a lie or a mistake. */
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

interface Received {
  /** For a person: which document. */
  readonly what: string
  readonly contentType: string | undefined
  /** As the index calls it that led here. */
  readonly describedAs?: string
  /** What is only fetched may be of any kind; what is unpacked may not. */
  readonly purpose?: ManifestPurpose
}

export type ManifestPurpose = 'image' | 'artifact'

/** What the registry says the document is, what an index said, what it says itself and what it looks like must be the same. */
export function parseManifest(bytes: Uint8Array, { what, contentType, describedAs, purpose = 'image' }: Received): ImageDocument {
  const document = parseObject(bytes, what)
  // Two programs would see two images in it (CVE-2021-41190).
  if ('layers' in document && 'manifests' in document) return refuse(what, 'it has both layers and manifests')
  if (document['schemaVersion'] === 1 || 'fsLayers' in document)
    return refuse(what, "it is of Docker's old schema 1; push it again with a newer tool")
  const own = document['mediaType']
  if (own !== undefined && (typeof own !== 'string' || manifestTypeOf(own) !== own))
    return refuse(what, `it calls itself ${JSON.stringify(own)}`)
  const names = new Set([own, manifestTypeOf(contentType), describedAs].filter((name) => typeof name === 'string'))
  const [type] = names
  if (type === undefined) return refuse(what, 'nothing says that it is an image or an index')
  if (names.size > 1) return refuse(what, `it is called ${[...names].join(' and ')}`)
  const kind = indexTypes.has(type) ? 'index' : 'manifest'
  if (kind === 'index') return { kind, ...check(Index, document, what) }
  const manifest = check(Manifest, document, what)
  return { kind, ...(purpose === 'image' ? checkImage(manifest, what) : manifest) }
}

function checkImage(manifest: Manifest, what: string): Manifest {
  if (!configTypes.has(manifest.config.mediaType)) return refuse(what, `it is no image: its config is ${manifest.config.mediaType}`)
  const sizes = new Map<Digest, number>()
  for (const { mediaType, digest, size } of manifest.layers) {
    if (layerCompression(mediaType) === null) return refuse(what, `a layer is ${mediaType}, which can't be unpacked`)
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
