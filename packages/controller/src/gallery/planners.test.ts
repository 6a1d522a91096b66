// Against real images of a registry on loopback, and galleries in files.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog, systemClock } from '@muster/host'
import { BackendName, Digest, type GalleryView } from '@muster/protocol'
import { createOciClient, createOutbound, noCredentials, parseGallery } from '@muster/source'
import { digestOf, makeImage, makeIndex, makeTempDir, startHostileRegistry, type HostileRegistry, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { nodeRecord } from '../../test/node-record.ts'
import { packBuiltins } from '../builtin/builtin-blobs.ts'
import { toHttpError } from '../http/http-error.ts'
import { nothingToFetch } from '../store/intent-rows.ts'
import { createCatalogue, galleryOfFleet, type Offers } from './catalogue.ts'
import { createPlanInstall, createPlanUpgrade, type InstallTarget, type PlanInstall, type PlanUpgrade } from './planners.ts'
import { createResolveSource } from './resolve-source.ts'

const signal = new AbortController().signal
const name = (text: string) => BackendName.parse(text)
const amd = nodeRecord('amd')
const arm = nodeRecord('arm', { arch: 'arm64' })
const cuda = nodeRecord('cuda', { capability: 'nvidia-cuda-12' })
const images = {
  amd: makeImage({ layers: [Buffer.from('for amd64')] }),
  arm: makeImage({ layers: [Buffer.from('for arm64')], platform: { os: 'linux', architecture: 'arm64' } }),
  cuda: makeImage({ layers: [Buffer.from('for cuda')] }),
}
const index = makeIndex([images.amd, images.arm])
const archive = Buffer.from('an archive')

let registry: HostileRegistry
let files: Server
let filesHost: string
let directory: TempDir
let addresses: GalleryView[] = []
let install: PlanInstall
let upgrade: PlanUpgrade

beforeAll(async () => {
  directory = await makeTempDir('plan')
  registry = await startHostileRegistry()
  for (const image of Object.values(images)) registry.addImage('b/llama', image)
  registry.addManifest('b/llama', index, '1')
  registry.addImage('b/cuda', images.cuda, '1')
  files = createServer((request, response) => {
    const isThere = request.url === '/a.tar.gz' && request.method === 'GET'
    response.writeHead(isThere ? 206 : request.method === 'HEAD' ? 405 : 404, { 'content-range': `bytes 0-0/${archive.length}` }).end('x')
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => files.once('listening', resolve))
  filesHost = `127.0.0.1:${(files.address() as AddressInfo).port}`
  const builtin = packBuiltins({ backends: join(import.meta.dirname, '../../../../backends'), directory: join(directory.path, 'builtin') })
  const outbound = createOutbound({ allow: [registry.host, filesHost], clock: systemClock, log: silentLog })
  const oci = createOciClient({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog, random: () => 0 })
  const deps = {
    catalogue: createCatalogue({ galleries: { list: async () => addresses }, builtin, outbound, stopping: signal, clock: systemClock }),
    resolve: createResolveSource({ outbound, oci, builtin, clock: systemClock }),
  }
  install = createPlanInstall(deps)
  upgrade = createPlanUpgrade(deps)
  await builtin
})
afterAll(async () => {
  await registry.stop()
  files.close()
  await directory.remove()
})
beforeEach(async () => {
  registry.behave()
  addresses = []
  await offer('main', [
    { name: 'llama', capabilities: { default: 'cpu-llama', 'nvidia-cuda-12': 'cuda12-llama' } },
    { name: 'cpu-llama', alias: 'llama', version: '1.0', uri: `oci://${registry.host}/b/llama:1`, mirrors: [`${registry.host}/b/llama:1`] },
    { name: 'cuda12-llama', version: '1.0', uri: `oci://${registry.host}/b/cuda:1` },
    { name: 'gone', uri: `${registry.host}/b/gone:1` },
    { name: 'far', uri: '10.0.0.1/b/far:1' },
    { name: 'zip', version: '3', uri: `http://${filesHost}/a.tar.gz`, sha256: digestOf(archive).slice(7) },
    { name: 'no-zip', uri: `http://${filesHost}/none.tar.gz`, sha256: digestOf(archive).slice(7) },
    { name: 'unheld', uri: `http://${filesHost}/a.tar.gz` },
  ])
})

async function offer(gallery: string, entries: readonly object[] | string): Promise<void> {
  const path = join(directory.path, `${gallery}.yaml`)
  await writeFile(path, typeof entries === 'string' ? entries : JSON.stringify(entries))
  const view: GalleryView = { name: gallery, url: `file://${path}`, kind: 'backend', from: 'api', created_at: null }
  addresses = [...addresses.filter((each) => each.name !== gallery), view]
}
const refusalOf = (wanted: InstallTarget, nodes = [amd]) => install(wanted, nodes, signal).then(() => 'planned', toHttpError)

describe('an install is planned', () => {
  it('S2.42 W37 S0.34 per node: a meta backend by capability, a tag by platform, each source resolved once', async () => {
    const before = registry.requests.length
    const nodes = [amd, arm, cuda, nodeRecord('amd-2')]
    const planned = await install({ backend: name('llama') }, nodes, signal)
    expect(planned.backend).toBe('llama')
    const cpu = { uri: `oci://${registry.host}/b/llama:1`, name: 'cpu-llama', alias: 'llama', version: '1.0', exact: false }
    expect(planned.nodes).toMatchObject([
      { node: amd, plan: { ...cpu, digest: index.digest, sizeBytes: images.amd.layers[0]?.bytes.length } },
      { node: arm, plan: { ...cpu, digest: index.digest, mirrors: [`${registry.host}/b/llama:1`] } },
      { node: cuda, plan: { name: 'cuda12-llama', alias: null, digest: images.cuda.manifest.digest } },
      { node: { id: 'amd-2' }, plan: { digest: index.digest } },
    ])
    // Two of an index (index, manifest, config each) and one image (manifest, config).
    expect(registry.requests.slice(before).filter(({ path }) => path.includes('/b/'))).toHaveLength(8)
  })

  it.each([
    ['another os', { backend: name('cuda12-llama') }, nodeRecord('mac', { os: 'darwin' }), /NVIDIA/],
    ['another arch', { backend: name('cuda12-llama') }, nodeRecord('x', { arch: 'arm64', capability: 'nvidia' }), /linux\/arm64/],
    ['another capability', { backend: name('cuda12-llama') }, amd, /needs an NVIDIA GPU/],
  ])('S2.42 W37 with a reason where it does not fit: %s', async (_, wanted, node, reason) => {
    const { nodes } = await install(wanted, [node], signal)
    expect(nodes).toMatchObject([{ node, outcome: 'skipped', reason: expect.stringMatching(reason) as string }])
  })

  it.each(['present', 'silent'] as const)(
    'E4 also where the disk looked too small, on a node that is %s: only the worker knows',
    async (liveness) => {
      const node = nodeRecord('x', { liveness, resources: { available_disk: 3 } })
      const sizeBytes = images.amd.layers[0]?.bytes.length
      expect((await install({ backend: name('llama') }, [node], signal)).nodes).toMatchObject([{ outcome: 'planned', plan: { sizeBytes } }])
    },
  )

  it('for a worker that does not report its platform, without a digest', async () => {
    const { nodes } = await install({ backend: name('llama') }, [nodeRecord('old', { os: '', arch: '' })], signal)
    expect(nodes).toMatchObject([{ outcome: 'planned', plan: { digest: null, name: 'cpu-llama' } }])
  })

  it('by uri, under the given name, pinned to the requested digest', async () => {
    const uri = `${registry.host}/b/llama:1`
    const digest = images.amd.manifest.digest
    const planned = await install({ uri, name: name('mine'), alias: name('my'), digest }, [amd, arm], signal)
    expect(planned).toMatchObject({
      backend: 'mine',
      nodes: [
        { outcome: 'planned', plan: { uri, digest, name: null, alias: 'my', exact: true } },
        { outcome: 'skipped', reason: expect.stringMatching(/for linux\/amd64, not for linux\/arm64/) as string },
      ],
    })
  })

  it('from an archive, a directory of the worker, and from Muster itself', async () => {
    expect((await install({ backend: name('zip') }, [amd], signal)).nodes).toMatchObject([
      { plan: { digest: digestOf(archive), sizeBytes: archive.length, version: '3' } },
    ])
    expect((await install({ uri: 'file:///opt/x', name: name('x') }, [amd], signal)).nodes).toMatchObject([
      { plan: { uri: 'file:///opt/x', digest: null, sizeBytes: null } },
    ])
  })

  const other = Digest.parse(`sha256:${'ab'.repeat(32)}`)
  it.each<[string, () => InstallTarget, object]>([
    ['an unknown backend', () => ({ backend: name('nothing') }), { status: 404, code: 'not_found' }],
    ['an image that is not there', () => ({ backend: name('gone') }), { status: 404, code: 'not_found' }],
    ['an archive that is not there', () => ({ backend: name('no-zip') }), { status: 404, code: 'not_found' }],
    ['an archive without a digest', () => ({ backend: name('unheld') }), { status: 400, code: 'invalid' }],
    ['an archive of another digest', () => ({ backend: name('zip'), digest: other }), { status: 404, code: 'not_found' }],
    ['a digest that is not there', () => ({ backend: name('cpu-llama'), digest: other }), { status: 404, code: 'not_found' }],
    ['a version that is not offered', () => ({ backend: name('llama'), version: '2.0' }), { status: 404, code: 'not_found' }],
    ['a source that is not allowed', () => ({ backend: name('far') }), { status: 403, code: 'source_forbidden' }],
    ['no source at all', () => ({ uri: 'ftp://x/y', name: name('x') }), { status: 400, code: 'invalid' }],
  ])('not at all for %s', async (_, wanted, refusal) => {
    expect(await refusalOf(wanted())).toMatchObject(refusal)
  })

  it('E13 not at all while the registry limits requests: its answer and its pause are passed on at once', async () => {
    registry.on('manifests/', { do: 'answer', status: 429, headers: { 'retry-after': '60' } })
    const before = registry.requests.length
    expect(await refusalOf({ backend: name('llama') })).toMatchObject({
      code: 'source_unavailable',
      status: 503,
      headers: { 'retry-after': '60' },
      message: expect.stringMatching(/b\/llama.* limits requests \(429\); it accepts the next request in 60 s/) as string,
    })
    expect(registry.requests.length - before).toBeLessThanOrEqual(2)
  })

  it('not at all while the registry fails: 503 with Retry-After', async () => {
    registry.on('/b/cuda', { do: 'answer', status: 503 })
    expect(await refusalOf({ backend: name('llama') }, [amd, cuda])).toMatchObject({
      status: 503,
      code: 'source_unavailable',
      headers: { 'retry-after': '10' },
    })
  }, 30_000)

  it('W33 with the digest of the mirror that answered, when the first does not', async () => {
    await offer('main', [
      { name: 'm', uri: `${registry.host}/b/gone:1`, mirrors: ['https://x.example/a.tar.gz', `${registry.host}/b/cuda:1`] },
    ])
    expect((await install({ backend: name('m') }, [amd], signal)).nodes).toMatchObject([
      { plan: { uri: `${registry.host}/b/gone:1`, mirrors: [`${registry.host}/b/cuda:1`], digest: images.cuda.manifest.digest } },
    ])
  })
})

describe('a load on a further node', () => {
  const toy = (scheme: string) => ({ name: 'toy', uri: `${scheme}${registry.host}/b/llama:1` })
  const offersOf = (galleries: readonly string[], problems: readonly string[] = []): Offers => ({
    galleries: galleries.map((each) => ({ name: each, url: `u:${each}`, ...parseGallery('- {name: toy, uri: "h/a:1"}') })),
    problems: problems.map((gallery) => ({
      ...{ gallery, url: `u:${gallery}`, precedes: 0, names: null },
      failure: { code: 'unavailable', retry: 'backoff', message: '503' },
    })),
  })
  const has = (id: string, gallery: string) => nodeRecord(id, { inventory: [{ name: 'toy', gallery_url: `u:${gallery}` }] })

  it.each([
    ['the gallery of the build that most nodes have', offersOf(['a', 'b']), [has('1', 'a'), has('2', 'b'), has('3', 'b')], 'b'],
    ['the one of the first node by name in a tie', offersOf(['a', 'b']), [has('2', 'a'), has('1', 'b')], 'b'],
    ['also one that cannot be read now', offersOf(['a'], ['b']), [has('1', 'b')], 'b'],
    ['any gallery when that one is no longer configured', offersOf(['a']), [has('1', 'b')], null],
    ['any gallery when no node has it', offersOf(['a']), [amd], null],
  ])('takes %s', (_, offers, nodes, gallery) => {
    expect(galleryOfFleet(offers, name('toy'), nodes)).toBe(gallery)
  })

  it('installs from that gallery, and keeps an intact build of another one', async () => {
    await offer('first', [toy('')])
    await offer('second', [toy('oci://')])
    expect((await install({ backend: name('toy'), from: 'second' }, [amd], signal)).nodes).toMatchObject([
      { plan: { uri: toy('oci://').uri, exact: false } },
    ])
  })
})

describe('a gallery that cannot be read', () => {
  const toy = (scheme: string) => ({ name: 'toy', uri: `${scheme}${registry.host}/b/llama:1` })
  const plansOf = async (backend: string) => (await install({ backend: name(backend) }, [amd], signal)).nodes

  it('and comes first hides the same name in later ones: nothing is installed from them', async () => {
    await offer('later', [toy(''), { name: 'other', capabilities: { default: 'toy' } }])
    await offer('latest', [toy('oci://'), { name: 'only', uri: `${registry.host}/b/llama:1` }])
    expect(await plansOf('toy')).toMatchObject([{ plan: { uri: toy('').uri } }])
    await offer('main', 'name: [')
    addresses = [...addresses.slice(-1), ...addresses.slice(0, -1)]
    const refusal = await refusalOf({ backend: name('toy') })
    expect(refusal).toMatchObject({ status: 503, code: 'source_unavailable', headers: { 'retry-after': '10' } })
    expect(refusal).toMatchObject({
      message: expect.stringMatching(/the gallery main .*before later, which offers toy.*line 1.*remove/s) as string,
    })
    expect(await refusalOf({ backend: name('other') })).toMatchObject({ status: 503 })
    expect(await refusalOf({ backend: name('only') })).toMatchObject({ status: 503 })
    // The built-in gallery comes before it.
    expect(await plansOf('echo')).toMatchObject([{ outcome: 'planned' }])
  })

  it('hides the entry of a meta backend that another gallery offers', async () => {
    await offer('broken', 'name: [')
    await offer('later', [toy('')])
    await offer('main', [
      { name: 'meta', capabilities: { default: 'toy', 'nvidia-cuda-12': 'nowhere' } },
      { name: 'toy-2', uri: `${registry.host}/b/llama:1` },
    ])
    addresses = [...addresses.slice(-1), ...addresses.slice(0, -1)]
    expect(await plansOf('toy-2')).toMatchObject([{ outcome: 'planned' }])
    expect(await refusalOf({ backend: name('meta') })).toMatchObject({ status: 503, message: expect.stringMatching(/broken/) as string })
    expect(await refusalOf({ backend: name('meta') }, [cuda])).toMatchObject({
      status: 503,
      message: expect.stringMatching(/nowhere/) as string,
    })
  })

  it('hides upgrades: neither a later gallery nor the recorded source is used', async () => {
    await offer('later', [toy('')])
    await offer('main', 'name: [')
    addresses = [...addresses.slice(-1), ...addresses.slice(0, -1)]
    const uri = `${registry.host}/b/llama:1`
    for (const backend of ['toy', 'unlisted']) {
      const node = nodeRecord('has', { inventory: [{ name: backend, uri }] })
      const planned = upgrade({ backend: name(backend), strategy: 'rolling' }, [{ node, openPlan: null }], signal)
      expect(await planned.then(() => 'planned', toHttpError)).toMatchObject({ status: 503, code: 'source_unavailable' })
    }
  })

  it('is a problem of its own: offers of galleries before it are still installed', async () => {
    await offer('broken', 'name: [')
    expect((await install({ backend: name('zip') }, [amd], signal)).nodes).toMatchObject([{ outcome: 'planned' }])
    expect(await refusalOf({ backend: name('nothing') })).toMatchObject({ status: 404, message: expect.stringMatching(/broken/) as string })
  })

  it('and may be readable later makes an unknown backend unavailable, not absent', async () => {
    registry.on('/gallery.yaml', { do: 'answer', status: 503 })
    addresses = [...addresses, { name: 'far', url: `http://${registry.host}/gallery.yaml`, kind: 'backend', from: 'api', created_at: null }]
    expect(await refusalOf({ backend: name('nothing') })).toMatchObject({ status: 503, code: 'source_unavailable' })
    expect(await refusalOf({ backend: name('zip') })).toBe('planned')
  })
})

describe('a named gallery', () => {
  const toy = (scheme: string) => ({ name: 'toy', version: scheme, uri: `${scheme}${registry.host}/b/llama:1` })
  const from = async (url: string, backend = 'toy') => {
    const node = nodeRecord('has', { inventory: [{ name: backend, uri: `${registry.host}/b/cuda:1`, gallery_url: url }] })
    return await upgrade({ backend: name(backend), strategy: 'rolling' }, [{ node, openPlan: null }], signal).catch(toHttpError)
  }
  const urlOf = (gallery: string) => addresses.find((each) => each.name === gallery)?.url ?? ''
  beforeEach(async () => {
    await offer('one', [toy('')])
    await offer('two', [toy('oci://'), { name: 'meta', capabilities: { default: 'toy' } }])
  })

  it('is used whatever galleries before it offer, also while they cannot be read, and replaces another build', async () => {
    const planned = { backend: 'toy', nodes: [{ plan: { uri: toy('oci://').uri, galleryUrl: urlOf('two'), exact: true } }] }
    expect(await install({ backend: 'two@toy' }, [amd], signal)).toMatchObject(planned)
    expect(await install({ backend: 'two@meta' }, [amd], signal)).toMatchObject({ ...planned, backend: 'meta' })
    expect(await install({ backend: 'toy' }, [amd], signal)).toMatchObject({ nodes: [{ plan: { uri: toy('').uri, exact: false } }] })
    await offer('main', 'name: [')
    addresses = [...addresses.slice(-1), ...addresses.slice(0, -1)]
    expect(await refusalOf({ backend: 'toy' })).toMatchObject({ status: 503, message: expect.stringMatching(/one@toy/) as string })
    expect(await install({ backend: 'two@toy' }, [amd], signal)).toMatchObject(planned)
  })

  it('is refused when it is unknown, cannot be read, or does not offer the name', async () => {
    await offer('broken', 'name: [')
    expect(await refusalOf({ backend: 'none@toy' })).toMatchObject({
      status: 404,
      message: expect.stringMatching(/no gallery none/) as string,
    })
    expect(await refusalOf({ backend: 'one@zip' })).toMatchObject({ status: 404, message: expect.stringMatching(/one .*zip/) as string })
    expect(await refusalOf({ backend: 'broken@toy' })).toMatchObject({ status: 503, message: expect.stringMatching(/line 1/) as string })
  })

  it('is where upgrades of the install look', async () => {
    expect(await from(urlOf('two'))).toMatchObject([{ plan: { uri: toy('oci://').uri, galleryUrl: urlOf('two') } }])
    expect(await from(urlOf('one'))).toMatchObject([{ plan: { uri: toy('').uri } }])
    const openPlan = { ...nothingToFetch, uri: toy('oci://').uri, galleryUrl: urlOf('two') }
    expect(await upgrade({ backend: name('toy'), strategy: null }, [{ node: amd, openPlan }], signal)).toMatchObject([
      { plan: { uri: toy('oci://').uri } },
    ])
    // The gallery was removed: all others count, in their order.
    expect(await from('https://removed.example/index.yaml')).toMatchObject([{ plan: { uri: toy('').uri } }])
  })

  it('is not replaced by another one in an upgrade, when it cannot be read or has dropped the name', async () => {
    await offer('two', [])
    expect(await from(urlOf('two'))).toMatchObject([{ plan: { uri: `${registry.host}/b/cuda:1` } }])
    await offer('two', 'name: [')
    expect(await from(urlOf('two'))).toMatchObject({ status: 503, code: 'source_unavailable' })
  })
})

describe('an upgrade is planned', () => {
  const has = (uri: string, over: object = {}) =>
    nodeRecord('has', { inventory: [{ name: 'mine', uri, digest: `sha256:${'0'.repeat(64)}`, ...over }] })
  const target = (node = amd) => ({ node, openPlan: null })
  const wanted = { backend: name('mine'), strategy: 'rolling' as const }

  it('S3.17 from the current gallery, a meta backend per node', async () => {
    const planned = await upgrade({ ...wanted, backend: name('llama') }, [target(amd), target(cuda)], signal)
    expect(planned).toMatchObject([
      { plan: { digest: index.digest, name: 'cpu-llama', strategy: 'rolling' } },
      { plan: { digest: images.cuda.manifest.digest, name: 'cuda12-llama', strategy: 'rolling' } },
    ])
  })

  it('from its recorded uri when no gallery offers it', async () => {
    const uri = `${registry.host}/b/llama:1`
    expect(await upgrade(wanted, [target(has(uri))], signal)).toMatchObject([{ plan: { uri, digest: index.digest } }])
    const held = has(`http://${filesHost}/a.tar.gz`, { digest: digestOf(archive) })
    expect(await upgrade(wanted, [target(held)], signal)).toMatchObject([{ plan: { digest: digestOf(archive) } }])
  })

  it('S3.14 for an install that is still open, from its own plan', async () => {
    const openPlan = { ...nothingToFetch, uri: `${registry.host}/b/cuda:1`, alias: name('my') }
    expect(await upgrade(wanted, [{ node: amd, openPlan }], signal)).toMatchObject([
      { plan: { uri: openPlan.uri, alias: 'my', digest: images.cuda.manifest.digest } },
    ])
  })

  it('not when its source is unknown', async () => {
    expect(await upgrade(wanted, [target(has(''))], signal)).toMatchObject([
      { outcome: 'skipped', reason: expect.stringMatching(/no recorded source/) as string },
    ])
  })
})
