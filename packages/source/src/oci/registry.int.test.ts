// Against a real registry: Debian's docker-registry.
import { writeFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { silentLog, systemClock } from '@muster/host'
import { makeImage, makeIndex, startRegistry, type ImageDocument, type ImageFixture, type Registry } from '@muster/testkit'
import { createOutbound } from '../outbound/create-outbound.ts'
import { createOciClient, type OciClient } from './create-oci-client.ts'
import { noCredentials } from './credentials.ts'
import { parseReference, type OciReference } from './reference.ts'

const { signal } = new AbortController()
const amd64 = { os: 'linux', arch: 'amd64' }
const bytes = (text: string): Buffer => Buffer.alloc(200_000, text)
const intel = makeImage({ layers: [bytes('base'), bytes('intel')], compression: 'zstd' })
const arm = makeImage({ layers: [bytes('base'), bytes('arm')], platform: { os: 'linux', architecture: 'arm64', variant: 'v8' } })
const docker = makeImage({ layers: [bytes('docker')], flavour: 'docker' })
const layer = intel.layers[1] ?? expect.unreachable()

let registry: Registry
let client: OciClient
const reference = (name: string): OciReference => parseReference(`oci://${registry.host}/${name}`)

async function push(repository: string, image: ImageFixture, tag: string): Promise<void> {
  for (const { digest, bytes: content } of [image.config, ...image.layers]) {
    const started = await fetch(`${registry.url}/v2/${repository}/blobs/uploads/`, { method: 'POST' })
    const upload = new URL(started.headers.get('location') ?? '')
    upload.searchParams.set('digest', digest)
    const put = await fetch(upload, {
      method: 'PUT',
      body: new Uint8Array(content),
      headers: { 'content-type': 'application/octet-stream' },
    })
    expect(put.status).toBe(201)
  }
  await pushManifest(repository, image.manifest, tag)
}
async function pushManifest(repository: string, { bytes: content, mediaType }: ImageDocument, tag: string): Promise<void> {
  const body = new Uint8Array(content)
  const put = await fetch(`${registry.url}/v2/${repository}/manifests/${tag}`, {
    method: 'PUT',
    body,
    headers: { 'content-type': mediaType },
  })
  expect(put.status).toBe(201)
}

beforeAll(async () => {
  registry = await startRegistry()
  const outbound = createOutbound({ allow: [registry.host], clock: systemClock, log: silentLog })
  client = createOciClient({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog })
  await push('team/echo', intel, 'intel')
  await push('team/echo', arm, 'arm')
  await push('team/echo', docker, 'docker')
  await pushManifest('team/echo', makeIndex([arm, intel]), 'v1')
})
afterAll(async () => await registry.stop())

it('E17 an index leads to the image of each machine', async () => {
  const asked = reference('team/echo:v1')
  await expect(client.resolve(asked, amd64, signal)).resolves.toMatchObject({
    indexDigest: makeIndex([arm, intel]).digest,
    manifestDigest: intel.manifest.digest,
    layers: intel.layers.map(({ digest, diffId, mediaType }) => ({ digest, diffId, mediaType })),
  })
  await expect(client.resolve(asked, { os: 'linux', arch: 'arm64' }, signal)).resolves.toMatchObject({
    manifestDigest: arm.manifest.digest,
  })
  await expect(client.resolve(asked, { os: 'linux', arch: 's390x' }, signal)).rejects.toMatchObject({ failure: { code: 'incompatible' } })
})

it('images of Docker and by digest are found too', async () => {
  await expect(client.resolve(reference('team/echo:docker'), amd64, signal)).resolves.toMatchObject({
    manifestDigest: docker.manifest.digest,
  })
  const pinned = reference(`team/echo@${intel.manifest.digest}`)
  await expect(client.resolve(pinned, amd64, signal)).resolves.toMatchObject({ reference: pinned, manifestDigest: intel.manifest.digest })
})

it('E7 a layer is sent whole, and from where an earlier attempt ended', async () => {
  for (const offset of [0, 7, layer.bytes.length - 1, layer.bytes.length]) {
    const blob = await client.openBlob(reference('team/echo:v1'), layer.digest, { offset, signal })
    expect([blob.offset, blob.size]).toEqual([offset, layer.bytes.length])
    await expect(buffer(blob.stream)).resolves.toEqual(layer.bytes.subarray(offset))
  }
})

it('E12 missing content is not found, by tag, by digest and by layer', async () => {
  const failure = { code: 'not_found', retry: 'never' }
  await expect(client.resolve(reference('team/echo:v2'), amd64, signal)).rejects.toMatchObject({ failure })
  await expect(client.resolve(reference('team/nobody:v1'), amd64, signal)).rejects.toMatchObject({ failure })
  await expect(client.resolve(reference(`team/echo@${layer.diffId}`), amd64, signal)).rejects.toMatchObject({ failure })
  await expect(client.openBlob(reference('team/echo:v1'), layer.diffId, { offset: 0, signal })).rejects.toMatchObject({ failure })
})

it('E10 a config that was changed in the store is not used', async () => {
  const hex = docker.config.digest.slice('sha256:'.length)
  const file = join(registry.storagePath, 'docker/registry/v2/blobs/sha256', hex.slice(0, 2), hex, 'data')
  const right = await readFile(file)
  await writeFile(file, right.toString().replace('linux', 'Linux'))
  await expect(client.resolve(reference('team/echo:docker'), amd64, signal)).rejects.toMatchObject({ failure: { code: 'integrity' } })
  await writeFile(file, right)
  await expect(client.resolve(reference('team/echo:docker'), amd64, signal)).resolves.toMatchObject({
    manifestDigest: docker.manifest.digest,
  })
})
