// Images whose documents nobody should believe: each differs in one thing from one that can be installed.
import { digestOf, makeDocument, type HostileRegistry, type ImageDocument } from '@muster/testkit'
import { backendImage } from './worker-world.ts'

type Json = Record<string, unknown>
/** Under the tag `v1` of a repository. */
export type Plant = (registry: HostileRegistry, repository: string) => void
export type HostileImage = readonly [name: string, code: string, message: RegExp, plant: Plant]

const base = backendImage('1.0')
const manifest = JSON.parse(base.manifest.bytes.toString()) as Json & { config: Json; layers: Json[] }
const config = JSON.parse(base.config.bytes.toString()) as Json & { rootfs: { diff_ids: string[] } }
const [layer = {}] = manifest.layers
const types = {
  manifest: base.manifest.mediaType,
  index: 'application/vnd.oci.image.index.v1+json',
  config: base.config.mediaType,
}
const bytesOf = (value: unknown): Buffer => (Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value)))
const describe = ({ bytes, digest, mediaType }: ImageDocument): Json => ({ mediaType, digest, size: bytes.length })

const asManifest =
  (value: unknown, type = types.manifest): Plant =>
  (registry, repository) => {
    registry.addImage(repository, base)
    registry.addManifest(repository, makeDocument(bytesOf(value), type), 'v1')
  }
const withLayer = (changes: Json): Plant => asManifest({ ...manifest, layers: [{ ...layer, ...changes }] })
const withConfig =
  (value: unknown): Plant =>
  (registry, repository) => {
    const document = makeDocument(bytesOf(value), types.config)
    registry.addBlob(document)
    asManifest({ ...manifest, config: describe(document) })(registry, repository)
  }
const entry = { ...describe(base.manifest), platform: base.platform }
const asIndex = (manifests: unknown, more: Json = {}): Plant =>
  asManifest({ schemaVersion: 2, mediaType: types.index, manifests, ...more }, types.index)
const hex = (digit: string): string => `sha256:${digit.repeat(64)}`
const inner = makeDocument(bytesOf({ schemaVersion: 2, mediaType: types.index, manifests: [entry] }), types.index)

const manifests: readonly HostileImage[] = [
  ['a manifest that is no JSON', 'invalid', /not JSON/, asManifest(Buffer.from('{'))],
  ['a manifest that is no UTF-8', 'invalid', /not JSON/, asManifest(Buffer.from([0x7b, 0xff, 0x7d]))],
  ['a manifest that is a list', 'invalid', /not a JSON object/, asManifest([manifest])],
  ['a manifest that is null', 'invalid', /not a JSON object/, asManifest(null)],
  ['a manifest of a hundred thousand brackets', 'invalid', /JSON/, asManifest(Buffer.from('['.repeat(100_000)))],
  ['a manifest of 5 MiB', 'invalid', /more than|larger|at most/, asManifest({ ...manifest, annotations: { a: 'x'.repeat(5 << 20) } })],
  ['both an image and an index', 'invalid', /both layers and manifests/, asManifest({ ...manifest, manifests: [entry] })],
  ['schema 1', 'invalid', /schema 1/, asManifest({ ...manifest, schemaVersion: 1 })],
  ['layers of schema 1', 'invalid', /schema 1/, asManifest({ ...manifest, fsLayers: [] })],
  ['a schema of the future', 'invalid', /schemaVersion/, asManifest({ ...manifest, schemaVersion: 3 })],
  ['no schema', 'invalid', /schemaVersion/, asManifest({ ...manifest, schemaVersion: undefined })],
  ['a type that is not text', 'invalid', /media type is/, asManifest({ ...manifest, mediaType: 7 })],
  ['an unknown type', 'invalid', /media type is/, asManifest({ ...manifest, mediaType: 'application/evil' })],
  ['an image that calls itself an index', 'invalid', /has the media types/, asManifest({ ...manifest, mediaType: types.index })],
  ['an image sent as an index', 'invalid', /has the media types/, asManifest(manifest, types.index)],
  ['no media type', 'invalid', /media type/, asManifest({ ...manifest, mediaType: undefined }, 'text/plain')],
  ['no layers', 'invalid', /layers/, asManifest({ ...manifest, layers: undefined })],
  ['an empty list of layers', 'invalid', /layers/, asManifest({ ...manifest, layers: [] })],
  ['600 layers', 'invalid', /layers/, asManifest({ ...manifest, layers: Array.from({ length: 600 }, () => layer) })],
  ['a layer that is null', 'invalid', /layers/, asManifest({ ...manifest, layers: [null] })],
  ['a layer by MD5', 'invalid', /digest/, withLayer({ digest: `md5:${'0'.repeat(32)}` })],
  ['a digest in capitals', 'invalid', /digest/, withLayer({ digest: hex('A') })],
  ['a digest that is a path', 'invalid', /digest/, withLayer({ digest: 'sha256:../../../../etc/passwd' })],
  ['a digest with a line break', 'invalid', /digest/, withLayer({ digest: `${hex('a')}\n` })],
  ['a layer of less than nothing', 'invalid', /size/, withLayer({ size: -1 })],
  ['a layer of half a byte', 'invalid', /size/, withLayer({ size: 0.5 })],
  ['a size in words', 'invalid', /size/, withLayer({ size: '100' })],
  ['a layer of a petabyte', 'invalid', /size/, withLayer({ size: 2 ** 50 })],
  ['a layer that nobody has', 'not_found', /does not exist/, withLayer({ digest: hex('0') })],
  ['a layer with more bytes than it says', 'integrity', /more than/, withLayer({ size: Number(layer['size']) - 1 })],
  ['a layer with fewer bytes than it says', 'unavailable', /ended after/, withLayer({ size: Number(layer['size']) + 1 })],
  ['an encrypted layer', 'invalid', /cannot be unpacked/, withLayer({ mediaType: `${String(layer['mediaType'])}+encrypted` })],
  [
    'a foreign layer',
    'invalid',
    /cannot be unpacked/,
    withLayer({ mediaType: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip' }),
  ],
  ['a layer of no type', 'invalid', /mediaType/, withLayer({ mediaType: undefined })],
  [
    'a layer that is not packed as it says',
    'integrity',
    /compression/,
    withLayer({ mediaType: 'application/vnd.oci.image.layer.v1.tar+zstd' }),
  ],
  ['one layer in two sizes', 'invalid', /two sizes/, asManifest({ ...manifest, layers: [layer, { ...layer, size: 1 }] })],
  ['no config', 'invalid', /config/, asManifest({ ...manifest, config: undefined })],
  [
    'a chart',
    'invalid',
    /not an image/,
    asManifest({ ...manifest, config: { ...manifest.config, mediaType: 'application/vnd.cncf.helm.config.v1+json' } }),
  ],
  ['a config of 5 MiB', 'invalid', /config/, asManifest({ ...manifest, config: { ...manifest.config, size: 5 << 20 } })],
  [
    'a config that nobody has',
    'not_found',
    /does not exist/,
    asManifest({ ...manifest, config: { ...manifest.config, digest: hex('1') } }),
  ],
  [
    'a config of another size',
    'invalid',
    /bytes/,
    asManifest({ ...manifest, config: { ...manifest.config, size: Number(manifest.config['size']) + 1 } }),
  ],
]

const configs: readonly HostileImage[] = [
  ['a config that is no JSON', 'invalid', /not JSON/, withConfig(Buffer.from('{{'))],
  ['a config that is a list', 'invalid', /not a JSON object/, withConfig([])],
  ['a config without layers', 'invalid', /rootfs/, withConfig({ ...config, rootfs: undefined })],
  [
    'a config with a layer too many',
    'invalid',
    /describes 2 layers/,
    withConfig({ ...config, rootfs: { type: 'layers', diff_ids: [hex('0'), hex('1')] } }),
  ],
  ['a config of no layers', 'invalid', /describes 0 layers/, withConfig({ ...config, rootfs: { type: 'layers', diff_ids: [] } })],
  ['a diff id that is none', 'invalid', /diff_ids/, withConfig({ ...config, rootfs: { type: 'layers', diff_ids: ['x'] } })],
  ['a diff id of another layer', 'integrity', /diff_id/, withConfig({ ...config, rootfs: { type: 'layers', diff_ids: [hex('0')] } })],
  ['another kind of root', 'invalid', /rootfs/, withConfig({ ...config, rootfs: { ...config.rootfs, type: 'tree' } })],
  ['an os that is a number', 'invalid', /os/, withConfig({ ...config, os: 7 })],
  ['an image for Windows', 'incompatible', /windows/, withConfig({ ...config, os: 'windows' })],
  ['an image for a mainframe', 'incompatible', /s390x/, withConfig({ ...config, architecture: 's390x' })],
]

const indexes: readonly HostileImage[] = [
  ['an index of nothing', 'incompatible', /has nothing for/, asIndex([])],
  ['an index without a list', 'invalid', /manifests/, asIndex(undefined)],
  ['an index of 600', 'invalid', /manifests/, asIndex(Array.from({ length: 600 }, () => entry))],
  [
    'an index for other machines',
    'incompatible',
    /has nothing for/,
    asIndex([{ ...entry, platform: { os: 'plan9', architecture: 'mips' } }]),
  ],
  ['an index whose platform is text', 'invalid', /platform/, asIndex([{ ...entry, platform: 'linux/amd64' }])],
  ['an index to a digest that is none', 'invalid', /digest/, asIndex([{ ...entry, digest: 'sha256:x' }])],
  ['an index to a manifest that nobody has', 'not_found', /does not exist/, asIndex([{ ...entry, digest: hex('2') }])],
  ['an index to a manifest of 5 MiB', 'invalid', /size/, asIndex([{ ...entry, size: 5 << 20 }])],
  ['an index to a manifest of another size', 'invalid', /bytes/, asIndex([{ ...entry, size: base.manifest.bytes.length + 1 }])],
  ['an index with layers beside', 'invalid', /both layers and manifests/, asIndex([entry], { layers: [layer] })],
  ['an index of schema 1', 'invalid', /schema 1/, asIndex([entry], { schemaVersion: 1 })],
  [
    'an index within an index, called an image',
    'invalid',
    /has the media types/,
    (registry, repository) => {
      registry.addManifest(repository, inner)
      asIndex([{ ...describe(inner), mediaType: types.manifest, platform: base.platform }])(registry, repository)
    },
  ],
  [
    'another manifest than the index says',
    'integrity',
    /should be/,
    (registry, repository) => {
      const other = makeDocument(bytesOf({ ...manifest, annotations: { a: 'b' } }), types.manifest)
      registry.addManifest(repository, { ...other, bytes: base.manifest.bytes }, 'other')
      asIndex([{ ...entry, digest: other.digest }])(registry, repository)
    },
  ],
]

export const hostileImages: readonly HostileImage[] = [...manifests, ...configs, ...indexes]

/** An image of one layer, with the media type that its publisher claims. */
export const imageOfLayer =
  (bytes: Buffer, { diffId = digestOf(bytes) }: { diffId?: string } = {}): Plant =>
  (registry, repository) => {
    const own = makeDocument(bytes, 'application/vnd.oci.image.layer.v1.tar')
    registry.addBlob(own)
    const document = makeDocument(bytesOf({ ...config, rootfs: { type: 'layers', diff_ids: [diffId] } }), types.config)
    registry.addBlob(document)
    asManifest({ ...manifest, config: describe(document), layers: [describe(own)] })(registry, repository)
  }
