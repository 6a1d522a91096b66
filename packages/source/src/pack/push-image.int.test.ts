// Against Debian's docker-registry, asked afterwards with plain HTTP.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Secret, silentLog, systemClock } from '@muster/host'
import { makeTempDir, startRegistry, type Registry, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noCredentials, type CredentialSource } from '../oci/credentials.ts'
import { parseReference } from '../oci/reference.ts'
import { createRegistryApi } from '../oci/registry-api.ts'
import { createOutbound } from '../outbound/create-outbound.ts'
import { packDirectory, type PackedImage } from './pack-directory.ts'
import { pushImage, type PushOptions } from './push-image.ts'

let registry: Registry
let temp: TempDir
let image: PackedImage
const signal = AbortSignal.timeout(60_000)

beforeAll(async () => {
  registry = await startRegistry()
  temp = await makeTempDir('push')
  const directory = join(temp.path, 'backend')
  await mkdir(directory)
  await writeFile(join(directory, 'backend.json'), '{"name":"x"}')
  await writeFile(join(directory, 'weights'), randomBytes(3_000_000))
  const platforms = [
    { os: 'linux', architecture: 'amd64' },
    { os: 'linux', architecture: 'arm64' },
  ]
  image = await packDirectory(directory, { layout: join(temp.path, 'layout'), platforms })
})
afterAll(async () => {
  await registry.stop()
  await temp.remove()
})

interface Access {
  readonly allow?: readonly string[]
  readonly credentials?: CredentialSource
}
const optionsFor = (host: string, repository: string, { allow = ['127.0.0.1'], credentials = noCredentials }: Access = {}): PushOptions => {
  const shared = { clock: systemClock, log: silentLog }
  const registryApi = createRegistryApi({ outbound: createOutbound({ allow, ...shared }), credentials, ...shared })
  return { to: parseReference(`${host}/${repository}:v1`), registry: registryApi, signal }
}
const sha256 = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const fetchBytes = async (
  path: string,
  accept = '*/*',
): Promise<{ status: number; digest: string; bytes: Buffer; header: string | null }> => {
  const response = await fetch(`${registry.url}${path}`, { headers: { accept } })
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, digest: sha256(bytes), bytes, header: response.headers.get('docker-content-digest') }
}

describe('pushImage', () => {
  it.each([
    ['in one piece', 64 * 1024 * 1024],
    ['in many pieces', 400_000],
  ])('brings an image %s to a registry, which gives back the same digests', async (how, chunkBytes) => {
    const repository = `team/${how.replaceAll(' ', '-')}`
    const pushed = await pushImage(image, { ...optionsFor(registry.host, repository), chunkBytes })
    expect(pushed).toBe(image.root.digest)
    const index = await fetchBytes(`/v2/${repository}/manifests/v1`, image.root.mediaType)
    expect([index.status, index.digest, index.header]).toEqual([200, pushed, pushed])
    for (const manifest of image.manifests) {
      expect((await fetchBytes(`/v2/${repository}/manifests/${manifest.digest}`, manifest.mediaType)).digest).toBe(manifest.digest)
    }
    for (const blob of image.blobs) expect((await fetchBytes(`/v2/${repository}/blobs/${blob.digest}`)).digest).toBe(blob.digest)
  })

  it('does not send existing blobs again', async () => {
    const outcomes: string[] = []
    const options = { ...optionsFor(registry.host, 'team/twice'), onBlob: (_: unknown, outcome: string) => void outcomes.push(outcome) }
    await pushImage(image, options)
    await pushImage(image, options)
    expect(outcomes).toEqual(['sent', 'sent', 'sent', 'there already', 'there already', 'there already'])
  })

  it('SEC21 contacts listed hosts only', async () => {
    const options = optionsFor(registry.host, 'team/closed', { allow: [] })
    await expect(pushImage(image, options)).rejects.toThrow('source_forbidden')
  })
})

describe('a registry that wants credentials', () => {
  let guard: Server
  let host: string
  const seen: string[] = []
  const right = `Basic ${Buffer.from('me:good').toString('base64')}`

  beforeAll(async () => {
    guard = createServer((request, response) => {
      request.resume()
      seen.push(`${request.method} ${request.headers.authorization ?? '-'}`)
      if (request.headers.authorization !== right) response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      else response.writeHead(request.method === 'HEAD' ? 200 : 201).end()
    })
    await new Promise<void>((resolve) => void guard.listen(0, '127.0.0.1', resolve))
    host = `127.0.0.1:${(guard.address() as AddressInfo).port}`
  })
  afterAll(() => void guard.close())

  it('is given them when it asks, and from then on', async () => {
    const credentials: CredentialSource = async (registryName) =>
      registryName === host ? { kind: 'password', username: 'me', password: new Secret('good') } : null
    await pushImage(image, optionsFor(host, 'team/x', { credentials }))
    expect(seen.filter((line) => line.endsWith(' -'))).toHaveLength(1)
    expect(seen.filter((line) => line.endsWith(right)).length).toBeGreaterThan(4)
  })

  it('that are missing cause an error with the remedy', async () => {
    const refused = await pushImage(image, optionsFor(host, 'team/x')).catch((error: unknown) => error)
    expect(refused).toMatchObject({ failure: { code: 'invalid', retry: 'never' } })
    expect(String(refused)).toContain('log in to the registry')
  })
})
