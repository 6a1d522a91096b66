// Against a registry that misbehaves on command. registry.int.test.ts uses a real one.
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Secret, silentLog, systemClock, type Clock } from '@muster/host'
import { Digest } from '@muster/protocol'
import { digestOf, makeCertificate, makeDocument, makeImage, makeIndex, startHostileRegistry, type HostileRegistry } from '@muster/testkit'
import { createOutbound, type OutboundOptions } from '../outbound/create-outbound.ts'
import { createOciClient, type OciClient, type ResolvedImage } from './create-oci-client.ts'
import { noCredentials, type CredentialSource } from './credentials.ts'
import type { Platform } from './manifest.ts'
import { parseReference, type OciReference } from './reference.ts'

const never = new AbortController().signal
const amd64: Platform = { os: 'linux', arch: 'amd64' }
const bytes = (text: string, length = 50_000): Buffer => Buffer.alloc(length, text)
const image = makeImage({ layers: [bytes('one'), bytes('two')] })
const layer = image.layers[0] ?? expect.unreachable()

let registry: HostileRegistry
let waits: number[]
beforeEach(async () => {
  registry = await startHostileRegistry()
  registry.addImage('a/b', image, 'v1')
  waits = []
})
afterEach(async () => await registry.stop())

/** Waits are written down and not waited for. */
const hasty: Clock = { ...systemClock, sleep: (ms) => Promise.resolve(void waits.push(ms)) }

const client = (options: Partial<OutboundOptions> & { credentials?: CredentialSource } = {}): OciClient => {
  const { credentials = noCredentials, ...rest } = options
  const outbound = createOutbound({ allow: ['127.0.0.0/8'], clock: systemClock, log: silentLog, ...rest })
  return createOciClient({ outbound, credentials, clock: hasty, log: silentLog, random: () => 0.5 })
}
const reference = (name = 'a/b:v1'): OciReference => parseReference(`${registry.host}/${name}`)
const resolve = async (name?: string, platform = amd64, from = client()): Promise<ResolvedImage> =>
  await from.resolve(reference(name), platform, never)
const paths = (): string[] => registry.requests.map(({ path }) => path.replace('/v2/a/b/', ''))
const failing = (code: string, retry: string, message: string | RegExp = '') =>
  expect.objectContaining({ failure: { code, retry, message: expect.stringMatching(message) } })
const addTagged = (document: unknown, mediaType = image.manifest.mediaType): void =>
  registry.addManifest('a/b', makeDocument(Buffer.from(JSON.stringify(document)), mediaType), 'bad')
const manifest = JSON.parse(image.manifest.bytes.toString()) as { config: object; layers: object[]; mediaType: string }

describe('resolving', () => {
  it.each(['oci', 'docker'] as const)('finds the layers of an image of %s', async (flavour) => {
    for (const compression of ['gzip', 'zstd', 'none'] as const) {
      const made = makeImage({ layers: [bytes('x'), bytes('y')], compression, flavour })
      registry.addImage('a/b', made, compression)
      const resolved = await resolve(`a/b:${compression}`)
      expect(resolved).toEqual({
        reference: { ...reference(`a/b:${compression}`), digest: made.manifest.digest },
        manifestDigest: made.manifest.digest,
        layers: made.layers.map(({ digest, mediaType, diffId, bytes: { length } }) => ({ digest, mediaType, diffId, size: length })),
        config: { digest: made.config.digest, size: made.config.bytes.length },
        totalBytes: made.layers.reduce((sum, { bytes: { length } }) => sum + length, 0),
      })
    }
  })

  it.each(['oci', 'docker'] as const)('E17 takes the image for this machine out of an index of %s', async (flavour) => {
    const arm = makeImage({ layers: [bytes('arm')], platform: { os: 'linux', architecture: 'arm64', variant: 'v8' }, flavour })
    const intel = makeImage({ layers: [bytes('intel')], flavour })
    const index = makeIndex([arm, intel], flavour)
    for (const each of [arm, intel]) registry.addImage('a/b', each)
    registry.addManifest('a/b', index, 'multi')
    await expect(resolve('a/b:multi')).resolves.toMatchObject({
      indexDigest: index.digest,
      manifestDigest: intel.manifest.digest,
      reference: { digest: index.digest, tag: 'multi' },
    })
    await expect(resolve('a/b:multi', { os: 'linux', arch: 'arm64' })).resolves.toMatchObject({ manifestDigest: arm.manifest.digest })
  })

  it('E17 without an image for this machine it is incompatible, before anything else is fetched', async () => {
    registry.addManifest('a/b', makeIndex([image]), 'multi')
    await expect(resolve('a/b:multi', { os: 'linux', arch: 'riscv64' })).rejects.toEqual(
      failing('incompatible', 'never', /has nothing for linux\/riscv64, only for linux\/amd64/),
    )
    expect(paths()).toEqual(['manifests/multi'])
    await expect(resolve('a/b:v1', { os: 'linux', arch: 'arm64' })).rejects.toEqual(
      failing('incompatible', 'never', /is for linux\/amd64, not for linux\/arm64/),
    )
    expect(waits).toEqual([])
  })

  it('E10 SEC12 a tag is resolved once; when it moves, the resolved digest stays', async () => {
    const resolved = await resolve()
    registry.addImage('a/b', makeImage({ layers: [bytes('moved')] }), 'v1')
    const again = await client().resolve(resolved.reference, amd64, never)
    expect(again.manifestDigest).toBe(image.manifest.digest)
    expect(paths().filter((path) => path === 'manifests/v1')).toHaveLength(1)
  })

  it('a layer that is listed twice is counted once', async () => {
    const twice = makeImage({ layers: [bytes('same'), bytes('same')] })
    registry.addImage('a/b', twice, 'twice')
    const resolved = await resolve('a/b:twice')
    expect([resolved.layers.length, resolved.totalBytes]).toEqual([2, twice.layers[0]?.bytes.length])
  })
})

describe('E10 SEC12 the content of a document', () => {
  it('is verified by its digest: another one under a pinned digest is refused', async () => {
    const other = makeImage({ layers: [bytes('other')] })
    registry.on(`manifests/${image.manifest.digest}`, { do: 'replace', bytes: other.manifest.bytes })
    await expect(resolve(`a/b@${image.manifest.digest}`)).rejects.toEqual(
      failing('integrity', 'backoff', /should be sha256:\w+ and is sha256:/),
    )
    expect(paths()).toHaveLength(1)
  })

  it('in an index is verified by the index', async () => {
    registry.addManifest('a/b', makeIndex([image]), 'multi')
    registry.on(`manifests/${image.manifest.digest}`, { do: 'corrupt', byte: 20 })
    await expect(resolve('a/b:multi')).rejects.toEqual(failing('integrity', 'backoff'))
  })

  it('of a config is verified by the manifest', async () => {
    registry.on(image.config.digest, { do: 'corrupt', byte: 3 })
    await expect(resolve()).rejects.toEqual(failing('integrity', 'backoff'))
  })

  it('is never verified by Docker-Content-Digest', async () => {
    const lie = digestOf(Buffer.from('another'))
    registry.on('manifests/v1', { do: 'lie', headers: { 'docker-content-digest': lie } }, 1)
    await expect(resolve()).rejects.toEqual(failing('integrity', 'backoff'))
    registry.on('manifests/v1', { do: 'lie', headers: { 'docker-content-digest': 'sha256:../../x' } }, 1)
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    registry.on(`manifests/${image.manifest.digest}`, { do: 'lie', headers: { 'docker-content-digest': lie } })
    await expect(resolve(`a/b@${image.manifest.digest}`)).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
  })
})

describe('H15 H16 a hostile manifest is refused', () => {
  it.each<[string, unknown, RegExp]>([
    ['that is also an index', { ...manifest, manifests: [] }, /both layers and manifests/],
    ['of schema 1', { schemaVersion: 1, fsLayers: [] }, /schema 1/],
    ['that is a list', [manifest], /not a JSON object/],
    ['that is null', null, /not a JSON object/],
    ['without a config', { ...manifest, config: undefined }, /config/],
    [
      'of a Helm chart',
      { ...manifest, config: { ...manifest.config, mediaType: 'application/vnd.cncf.helm.config.v1+json' } },
      /not an image/,
    ],
    ['without layers', { ...manifest, layers: [] }, /layers/],
    [
      'with 20,000 layers',
      { ...manifest, layers: Array.from({ length: 20_000 }, () => ({ mediaType: '', digest: '', size: 0 })) },
      /layers/,
    ],
    ['with 513 layers', { ...manifest, layers: Array.from({ length: 513 }, () => manifest.layers[0]) }, /layers/],
    ['whose layers are an object', { ...manifest, layers: { 0: manifest.layers[0] } }, /layers/],
    ['with a layer of negative size', { ...manifest, layers: [{ ...manifest.layers[0], size: -1 }] }, /layers\.0\.size/],
    ['with a layer of half a byte', { ...manifest, layers: [{ ...manifest.layers[0], size: 0.5 }] }, /layers\.0\.size/],
    ['with a layer larger than any disk', { ...manifest, layers: [{ ...manifest.layers[0], size: 2 ** 41 }] }, /layers\.0\.size/],
    ['with a size in words', { ...manifest, layers: [{ ...manifest.layers[0], size: '1' }] }, /layers\.0\.size/],
    ['with one layer in two sizes', { ...manifest, layers: [manifest.layers[0], { ...manifest.layers[0], size: 1 }] }, /two sizes/],
    ['with a config larger than 4 MiB', { ...manifest, config: { ...manifest.config, size: 2 ** 23 } }, /config\.size/],
    [
      'with an encrypted layer',
      { ...manifest, layers: [{ ...manifest.layers[0], mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip+encrypted' }] },
      /cannot be unpacked/,
    ],
    [
      'with a foreign layer',
      { ...manifest, layers: [{ ...manifest.layers[0], mediaType: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip' }] },
      /cannot be unpacked/,
    ],
    ['with a layer of no type', { ...manifest, layers: [{ ...manifest.layers[0], mediaType: undefined }] }, /layers\.0\.mediaType/],
    ['that calls itself something else', { ...manifest, mediaType: 'text/html' }, /media type is "text\/html"/],
    ['that calls itself a number', { ...manifest, mediaType: 2 }, /media type is 2/],
    ['that calls itself an index', { ...manifest, mediaType: 'application/vnd.oci.image.index.v1+json' }, /has the media types/],
    [
      'that calls itself of Docker',
      { ...manifest, mediaType: 'application/vnd.docker.distribution.manifest.v2+json' },
      /has the media types/,
    ],
    ['of schema 3', { ...manifest, schemaVersion: 3 }, /schemaVersion/],
  ])('%s', async (_what, document, reason) => {
    addTagged(document)
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', reason))
    expect([paths(), waits]).toEqual([['manifests/bad'], []])
  })

  it.each([
    ['sha256:../../../etc/passwd'],
    [`sha256:${'A'.repeat(64)}`],
    [`sha256:${'a'.repeat(63)}`],
    [`sha256:${'a'.repeat(65)}`],
    [`sha512:${'a'.repeat(128)}`],
    [`sha256:${'a'.repeat(64)}\n`],
    [''],
    [null],
    [{ toString: 'x' }],
  ])('H16 with the digest %j for a layer, the config, an entry of an index, a diff_id', async (digest) => {
    addTagged({ ...manifest, layers: [{ ...manifest.layers[0], digest }] })
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /layers\.0\.digest/))
    addTagged({ ...manifest, config: { ...manifest.config, digest } })
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /config\.digest/))
    const type = 'application/vnd.oci.image.index.v1+json'
    addTagged({ schemaVersion: 2, manifests: [{ mediaType: image.manifest.mediaType, digest, size: 5 }] }, type)
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /manifests\.0\.digest/))
    const config = makeDocument(Buffer.from(JSON.stringify({ rootfs: { type: 'layers', diff_ids: [digest] } })), '')
    registry.addBlob(config)
    addTagged({
      ...manifest,
      layers: [manifest.layers[0]],
      config: { ...manifest.config, digest: config.digest, size: config.bytes.length },
    })
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /diff_ids\.0/))
    expect(paths().filter((path) => !path.startsWith('manifests/bad'))).toEqual([`blobs/${config.digest}`])
  })

  it.each([
    ['with too few diff_ids', { rootfs: { type: 'layers', diff_ids: [] } }, /describes 0 layers and the image has 2/],
    ['with too many diff_ids', { rootfs: { type: 'layers', diff_ids: [layer.diffId, layer.diffId, layer.diffId] } }, /describes 3 layers/],
    ['without a rootfs', { os: 'linux' }, /rootfs/],
    ['of another kind of rootfs', { rootfs: { type: 'squash', diff_ids: [] } }, /rootfs\.type/],
  ])('with a config %s', async (_what, value, reason) => {
    const config = makeDocument(Buffer.from(JSON.stringify(value)), '')
    registry.addBlob(config)
    addTagged({ ...manifest, config: { ...manifest.config, digest: config.digest, size: config.bytes.length } })
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', reason))
  })

  it.each([
    ['that is not JSON', Buffer.from('<html>')],
    ['that is empty', Buffer.from('')],
    ['that is not UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['of nothing but brackets', Buffer.alloc(4_000_000, '[')],
    ['of brackets inside objects', Buffer.from('{"a":['.repeat(500_000))],
  ])('%s', async (_what, content) => {
    registry.addManifest('a/b', makeDocument(content, image.manifest.mediaType), 'bad')
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /not JSON/))
  })

  it('larger than 4 MiB, without reading it all', async () => {
    registry.addManifest('a/b', makeDocument(Buffer.alloc(100_000_000, ' '), image.manifest.mediaType), 'bad')
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /larger than 4194304 bytes/))
    registry.on('manifests/v1', { do: 'endless' })
    await expect(resolve()).rejects.toEqual(failing('invalid', 'never', /larger than 4194304 bytes/))
  })

  it('of another size than in the index', async () => {
    for (const [size, reason] of [
      [5, /larger than 5 bytes/],
      [image.manifest.bytes.length + 1, /has \d+ bytes, not \d+/],
    ] as const) {
      const entry = { mediaType: image.manifest.mediaType, digest: image.manifest.digest, size, platform: image.platform }
      addTagged({ schemaVersion: 2, manifests: [entry] }, 'application/vnd.oci.image.index.v1+json')
      await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', reason))
    }
  })

  it('that is an index where an image was promised, and an index of itself', async () => {
    const type = 'application/vnd.oci.image.index.v1+json'
    const inner = makeIndex([image])
    registry.addManifest('a/b', inner)
    const entry = { digest: inner.digest, size: inner.bytes.length, platform: image.platform }
    addTagged({ schemaVersion: 2, manifests: [{ ...entry, mediaType: image.manifest.mediaType }] }, type)
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /has the media types/))
    addTagged({ schemaVersion: 2, manifests: [{ ...entry, mediaType: type }] }, type)
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('incompatible', 'never', /nothing for linux\/amd64/))
    addTagged({ schemaVersion: 2, manifests: Array.from({ length: 513 }, () => ({ ...entry, mediaType: type })) }, type)
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /manifests/))
  })

  it('with a wrong media type', async () => {
    registry.on('manifests/v1', { do: 'lie', headers: { 'content-type': 'application/vnd.oci.image.index.v1+json' } }, 1)
    await expect(resolve()).rejects.toEqual(failing('invalid', 'never', /has the media types/))
    // A type that is not about manifests is accepted.
    registry.on('manifests/v1', { do: 'lie', headers: { 'content-type': 'application/json; charset=utf-8' } }, 1)
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    addTagged({ ...manifest, mediaType: undefined }, 'application/json')
    await expect(resolve('a/b:bad')).rejects.toEqual(failing('invalid', 'never', /its media type is neither an image/))
    addTagged({ ...manifest, mediaType: undefined })
    await expect(resolve('a/b:bad')).resolves.toMatchObject({ config: { digest: image.config.digest } })
  })
})

describe('E12 E13 E14 a registry in trouble', () => {
  it.each([
    [404, 'not_found', /does not exist \(MANIFEST_UNKNOWN: gone\)/],
    [403, 'invalid', /forbids access \(403\)/],
    [401, 'invalid', /requires other credentials \(401\)/],
    [400, 'invalid', /answers 400/],
    [304, 'invalid', /answers 304/],
  ])('E12 %i is final: %s', async (status, code, reason) => {
    registry.on('manifests/v1', { do: 'answer', status, body: '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"gone"}]}' })
    await expect(resolve()).rejects.toEqual(failing(code, 'never', reason))
    expect([registry.requests.length, waits]).toEqual([1, []])
  })

  it.each([401, 403])('E12 %i names the image, the registry and the setting for credentials', async (status) => {
    registry.on('manifests/v1', { do: 'answer', status })
    const refusal = String(await resolve().catch((error: unknown) => error))
    expect(refusal).toContain(`${registry.host}/a/b`)
    expect(refusal).toContain(`set --docker-config to a file with a login for ${registry.host}`)
    expect(refusal).toContain('MUSTER_DOCKER_CONFIG')
  })

  it('E13 a rate limit is called one, with the pause, also to a caller who waits', async () => {
    registry.on('manifests/v1', { do: 'answer', status: 429, headers: { 'retry-after': '60' } })
    const reported: [string, number][] = []
    const reporting = client().reporting((cause, waitMs) => void reported.push([cause.message, waitMs]))
    const said = `${registry.host} limits requests (429); it accepts the next request in 60 s`
    await expect(reporting.resolve(reference(), amd64, never)).rejects.toThrow(said)
    expect(reported).toEqual([1, 2, 3].map(() => [expect.stringContaining(said), 63_000]))
  })

  it('E13 a caller whose deadline comes first gets the rate limit at once', async () => {
    registry.on('manifests/v1', { do: 'answer', status: 429, headers: { 'retry-after': '60' } })
    const impatient = client().reporting((cause) => {
      throw cause
    })
    await expect(impatient.resolve(reference(), amd64, never)).rejects.toThrow('limits requests (429)')
    expect([registry.requests.length, waits]).toEqual([1, []])
  })

  it('E12 its message is shown without control characters, and shortened', async () => {
    const message = `\u001b[31mred\u0007\n${'x'.repeat(5000)}`
    registry.on('manifests/v1', { do: 'answer', status: 404, body: JSON.stringify({ errors: [{ message }] }) })
    await expect(resolve()).rejects.toSatisfy((error: Error) => !/\p{C}/u.test(error.message) && error.message.length < 500)
  })

  it.each([
    ['7', 7350],
    ['120', 126_000],
    ['1000000000', 126_000],
    ['garbage', 500],
    ['', 500],
  ])('E13 429 with Retry-After %j is tried again after %i ms', async (value, wait) => {
    registry.on('manifests/v1', { do: 'answer', status: 429, headers: { 'retry-after': value } }, 1)
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(waits).toEqual([wait])
  })

  it('E14 a burst of 500, 502 and resets is ridden out, each wait longer', async () => {
    registry.on('manifests/v1', { do: 'answer', status: 500 }, 1)
    registry.on('manifests/v1', { do: 'reset' }, 1)
    registry.on('manifests/v1', { do: 'answer', status: 502 }, 1)
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(waits).toEqual([500, 1000, 2000])
  })

  it('E14 a lasting outage is reported to the caller, who may know a mirror', async () => {
    registry.on('manifests/v1', { do: 'answer', status: 503 })
    await expect(resolve()).rejects.toEqual(failing('unavailable', 'backoff', /answers 503/))
    expect(registry.requests).toHaveLength(4)
  })

  it('E7 a manifest that is cut off is fetched again', async () => {
    registry.on('manifests/v1', { do: 'truncate', atBytes: 30 }, 2)
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
  })

  it('E13 a waiting caller can cancel', async () => {
    registry.on('manifests/v1', { do: 'answer', status: 429, headers: { 'retry-after': '120' } })
    const outbound = createOutbound({ allow: ['127.0.0.1'], clock: systemClock, log: silentLog })
    const patient = createOciClient({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog })
    await expect(patient.resolve(reference(), amd64, AbortSignal.timeout(300))).rejects.toMatchObject({ name: 'TimeoutError' })
  })
})

describe('E7 a layer', () => {
  const open = (offset: number, from = client()) => from.openBlob(reference(), layer.digest, { offset, signal: never })
  const rest = (offset: number): Buffer => layer.bytes.subarray(offset)
  const size = layer.bytes.length

  it('is sent whole, or from where an earlier attempt ended', async () => {
    for (const offset of [0, 1, size - 1]) {
      const blob = await open(offset)
      expect([blob.offset, blob.size]).toEqual([offset, size])
      await expect(buffer(blob.stream)).resolves.toEqual(rest(offset))
    }
    expect(registry.answersFor(layer.digest)).toEqual([
      { from: 0, bytes: size },
      { from: 1, bytes: size - 1 },
      { from: size - 1, bytes: 1 },
    ])
  })

  it('that is there to its last byte has nothing left to send', async () => {
    const blob = await open(size)
    expect([blob.offset, blob.size, (await buffer(blob.stream)).length]).toEqual([size, size, 0])
    expect(registry.bytesSent(layer.digest)).toBe(0)
  })

  it.each([
    ['knows no ranges', { do: 'ignore ranges' }],
    ['sends another part', { do: 'lie', headers: { 'content-range': `bytes 3-${size - 1}/${size}` } }],
    ['does not say which part it sends', { do: 'lie', headers: { 'content-range': 'bytes */*' } }],
    ['says that it is shorter', { do: 'answer', status: 416, headers: { 'content-range': 'bytes */5' } }],
  ] as const)('begins anew at a registry that %s', async (_what, behaviour) => {
    registry.on(layer.digest, behaviour, 1)
    const blob = await open(10)
    expect([blob.offset, blob.size]).toEqual([0, size])
    await expect(buffer(blob.stream)).resolves.toEqual(layer.bytes)
  })

  it('that is cut off fails in the stream, and goes on from there', async () => {
    registry.on(layer.digest, { do: 'truncate', atBytes: 20 }, 1)
    const first = await open(0)
    const came: Buffer[] = []
    first.stream.on('data', (chunk: Buffer) => came.push(chunk))
    await expect(new Promise((_, reject) => first.stream.once('error', reject))).rejects.toEqual(
      failing('unavailable', 'backoff', /cut off/),
    )
    // The error names the image, not only the host that was cut off.
    expect(first.stream.errored?.message).toContain(`blob ${layer.digest} of ${registry.host}/a/b: ${registry.host}: `)
    const { length } = Buffer.concat(came)
    const second = await open(length)
    expect([second.offset, Buffer.concat([...came, await buffer(second.stream)]).equals(layer.bytes)]).toEqual([length, true])
  })

  it('E14 whose registry is busy is opened later, at the same offset', async () => {
    registry.on(layer.digest, { do: 'answer', status: 503 }, 2)
    const blob = await open(15)
    expect([blob.offset, waits.length]).toEqual([15, 2])
    blob.stream.destroy()
  })

  it('that is nowhere is not found', async () => {
    await expect(client().openBlob(reference(), digestOf(Buffer.from('none')), { offset: 0, signal: never })).rejects.toEqual(
      failing('not_found', 'never'),
    )
  })

  it('E16 is fetched from the store that the registry redirects to, with the range and without credentials', async () => {
    const store = await startHostileRegistry()
    store.addBlob(layer)
    registry.guard({ challenge: 'Basic realm="x"', accepts: (header) => header !== undefined })
    registry.on(layer.digest, { do: 'redirect', to: `${store.url}/v2/store/blobs/${layer.digest}?signature=secret` })
    const credentials = () => Promise.resolve({ kind: 'password', username: 'u', password: new Secret('p') } as const)
    const from = client({ credentials })
    await from.resolve(reference(), amd64, never)
    const blob = await open(9, from)
    await expect(buffer(blob.stream)).resolves.toEqual(rest(9))
    expect(store.requests.map(({ headers }) => [headers.range, headers.authorization])).toEqual([['bytes=9-', undefined]])
    // A store that wants to know who asks is not told, whatever it says.
    store.guard({ challenge: `Bearer realm="${store.url}/token"`, accepts: () => false })
    await expect(open(9, from)).rejects.toEqual(failing('invalid', 'never', /401/))
    expect(store.requests.every(({ path, headers }) => !path.includes('token') && headers.authorization === undefined)).toBe(true)
    await store.stop()
  })

  it.each(['http://169.254.169.254/x', 'file:///etc/passwd', 'https://10.0.0.1/'])('E16 is not fetched from %s', async (to) => {
    registry.on(layer.digest, { do: 'redirect', to })
    await expect(open(0)).rejects.toEqual(failing('invalid', 'never', /^source_forbidden: /))
  })
})

describe('E11 credentials', () => {
  const password =
    (username: string, secret: string): CredentialSource =>
    (of) =>
      Promise.resolve(of === registry.host ? { kind: 'password', username, password: new Secret(secret) } : null)
  const basic = `Basic ${Buffer.from('user:hunter2').toString('base64')}`
  const guardWithToken = (realm = `${registry.url}/token`): void => {
    registry.guard({
      challenge: `Bearer realm="${realm}",service="reg",scope="repository:other:push"`,
      accepts: (header) => header === 'Bearer good',
    })
  }
  const tokens = () => registry.requests.filter(({ path }) => path.startsWith('/token'))

  it('by Basic are sent when the registry asks for them, and from then on', async () => {
    registry.guard({ challenge: 'Basic realm="x"', accepts: (header) => header === basic })
    await resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))
    expect(registry.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, basic, basic])
  })

  it('that are wrong or missing are reported after one attempt', async () => {
    registry.guard({ challenge: 'Basic realm="x"', accepts: (header) => header === basic })
    await expect(resolve('a/b:v1', amd64, client({ credentials: password('user', 'wrong') }))).rejects.toEqual(
      failing('invalid', 'never', /401/),
    )
    expect(registry.requests).toHaveLength(2)
    await expect(resolve()).rejects.toEqual(failing('invalid', 'never', /401/))
    expect(registry.requests).toHaveLength(3)
  })

  it('get one token for all requests, with the needed scope instead of the offered one', async () => {
    guardWithToken()
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"good","expires_in":300}' })
    await resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))
    expect(tokens().map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/token?service=reg&scope=repository%3Aa%2Fb%3Apull', basic],
    ])
  })

  it('are not needed for an anonymous token', async () => {
    guardWithToken()
    registry.on('/token', { do: 'answer', status: 200, body: '{"access_token":"good"}' })
    await expect(resolve()).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(tokens()[0]?.headers.authorization).toBeUndefined()
  })

  it('that are an identity token are handed in for a token', async () => {
    guardWithToken()
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"good"}' })
    const credentials: CredentialSource = () => Promise.resolve({ kind: 'identity', token: new Secret('identity') })
    await expect(resolve('a/b:v1', amd64, client({ credentials }))).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(tokens().map(({ method, path }) => [method, path])).toEqual([['POST', '/token']])
  })

  it('a token that ran out is replaced', async () => {
    let accepted = 'first'
    registry.guard({ challenge: `Bearer realm="${registry.url}/token"`, accepts: (header) => header === `Bearer ${accepted}` })
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"first"}' }, 1)
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"second"}' }, 1)
    const from = client()
    await resolve('a/b:v1', amd64, from)
    accepted = 'second'
    await expect(resolve('a/b:v1', amd64, from)).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(tokens()).toHaveLength(2)
  })

  it.each([
    ['another host', 'http://localhost:1/token', /is another host/],
    ['a metadata service', 'http://169.254.169.254/token', /is another host/],
    ['a file', 'file:///etc/passwd', /from file:/],
    ['nowhere', '', /does not say from where/],
    ['something that is not a URL', '///', /does not say from where/],
  ])('are not sent to %s', async (_what, realm, reason) => {
    guardWithToken(realm)
    await expect(resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))).rejects.toEqual(
      failing('invalid', 'never', reason),
    )
    expect(registry.requests.map(({ headers }) => headers.authorization)).toEqual([undefined])
  })

  it('are sent to another host where an operator listed it', async () => {
    const tokenService = await startHostileRegistry()
    const { port } = new URL(tokenService.url)
    guardWithToken(`http://tokens.test:${port}/token`)
    tokenService.on('/token', { do: 'answer', status: 200, body: '{"token":"good"}' })
    const listed = client({
      allow: ['127.0.0.1', 'tokens.test'],
      lookup: () => Promise.resolve(['127.0.0.1']),
      credentials: password('user', 'hunter2'),
    })
    await expect(resolve('a/b:v1', amd64, listed)).resolves.toMatchObject({ manifestDigest: image.manifest.digest })
    expect(tokenService.requests.map(({ headers }) => headers.authorization)).toEqual([basic])
    await tokenService.stop()
  })

  it('do not follow a token service that sends them on', async () => {
    guardWithToken()
    registry.on('/token', { do: 'redirect', to: `${registry.url}/elsewhere` })
    await expect(resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))).rejects.toThrow(/^source_forbidden: /)
    expect(registry.requests.map(({ path }) => path)).not.toContain('/elsewhere')
  })

  it.each([
    '{}',
    'null',
    'x',
    '{"token":"a b"}',
    '{"token":"a\\r\\nx: y"}',
    '{"token":""}',
    '{"token":5}',
    `{"token":"${'x'.repeat(40_000)}"}`,
  ])('a token like %.40s is none', async (body) => {
    guardWithToken()
    registry.on('/token', { do: 'answer', status: 200, body })
    await expect(resolve()).rejects.toEqual(failing('unavailable', 'backoff', /holds no token/))
  })

  it.each([
    ['nothing', undefined],
    ['something unknown', 'Negotiate'],
    ['an unreadable challenge', 'Bearer realm="'],
    ['very much', `Bearer realm="${'x'.repeat(10_000)}"`],
  ])('a registry that asks for %s gets nothing', async (_what, challenge) => {
    registry.on('manifests/v1', { do: 'answer', status: 401, headers: challenge === undefined ? {} : { 'www-authenticate': challenge } })
    await expect(resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))).rejects.toEqual(
      failing('invalid', 'never', /401/),
    )
    expect(registry.requests.every(({ headers }) => headers.authorization === undefined)).toBe(true)
  })

  it('where there is a choice, a token is bought', async () => {
    registry.guard({
      challenge: ['Basic realm="x"', `Bearer realm="${registry.url}/token"`],
      accepts: (header) => header === 'Bearer good',
    })
    registry.on('/token', { do: 'answer', status: 200, body: '{"token":"good"}' })
    await expect(resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') }))).resolves.toMatchObject({
      manifestDigest: image.manifest.digest,
    })
  })

  it('I21 appear in no failure', async () => {
    registry.guard({ challenge: 'Basic realm="x"', accepts: () => false })
    const failed = await resolve('a/b:v1', amd64, client({ credentials: password('user', 'hunter2') })).catch((error: unknown) => error)
    expect(String(failed)).not.toMatch(/hunter2|dXNlcjpodW50ZXIy/)
  })
})

describe('SEC21 https and plain http', () => {
  it('this machine is not contacted unless it is listed', async () => {
    await expect(resolve('a/b:v1', amd64, client({ allow: [] }))).rejects.toThrow(/^source_forbidden: 127\.0\.0\.1 is a loopback address/)
    expect(registry.requests).toEqual([])
  })

  it('is contacted by https if it supports that, and never by plain http after a wrong certificate', async () => {
    const certificate = makeCertificate('127.0.0.1')
    const secure = await startHostileRegistry({ tls: certificate })
    secure.addImage('a/b', image, 'v1')
    const asked = parseReference(`${secure.host}/a/b:v1`)
    await expect(client({ ca: [certificate.cert] }).resolve(asked, amd64, never)).resolves.toMatchObject({
      manifestDigest: image.manifest.digest,
    })
    const before = secure.requests.length
    await expect(client().resolve(asked, amd64, never)).rejects.toEqual(failing('unavailable', 'backoff', /certificate/))
    expect(secure.requests).toHaveLength(before)
    await secure.stop()
  })
})

it('SEC12 a digest is made by its parser alone', () => {
  // @ts-expect-error a string is no digest
  const digest: Digest = `sha256:${'a'.repeat(64)}`
  expect(Digest.parse(digest)).toBe(digest)
})
