// An archive (.tar.gz, .tar.zst) by https or from this machine, as one layer; and a directory of this machine.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packDirectory, type Outbound } from '@muster/source'
import { Digest, FleetError } from '@muster/protocol'
import type { InstallContext } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'

type Deps = Readonly<{ store: BackendStore; outbound: Outbound }>

export async function pullArchive(
  { store, outbound }: Deps,
  { uris, sha256 }: { uris: readonly [string, ...string[]]; sha256: string },
  context: InstallContext,
): Promise<Digest> {
  const { signal, onProgress } = context
  const [uri] = uris
  if (sha256 === '') throw new FleetError({ code: 'invalid', retry: 'never', message: `the archive ${uri} has no sha256 to hold it to` })
  const digest = Digest.parse(`sha256:${sha256}`)
  using held = new DisposableStack()
  held.use(store.hold([digest]))
  let total = 0
  const open = async (offset: number) => {
    const response = await outbound.request({ url: new URL(uri), headers: offset === 0 ? {} : { range: `bytes=${offset}-` }, signal })
    if (response.status !== 200 && response.status !== 206) {
      response.body.destroy()
      const isGone = response.status === 404 || response.status === 410
      const message = `${uri} can't be fetched: ${response.url.host} answered ${response.status}`
      throw new FleetError(isGone ? { code: 'not_found', retry: 'never', message } : { code: 'unavailable', retry: 'backoff', message })
    }
    const start = response.status === 206 ? offset : 0
    total = start + Number(response.headers['content-length'] ?? 0)
    return { stream: response.body, offset: start }
  }
  onProgress({ phase: 'downloading', fileName: nameOf(uri) })
  const onBytes = (current: number): void =>
    onProgress({ phase: 'downloading', fileName: nameOf(uri), current, total: Math.max(total, current) })
  await store.fetchBlob({ digest, size: null, open }, { signal, onBytes })
  return await unpackArchive(store, { digest, path: uri }, context)
}

export async function takeFile({ store }: Pick<Deps, 'store'>, uri: string, context: InstallContext): Promise<Digest> {
  const { signal, onProgress } = context
  const path = fileURLToPath(uri)
  const found = await stat(path).catch(() => null)
  if (found === null) throw new FleetError({ code: 'not_found', retry: 'never', message: `there is nothing at ${path} on this machine` })
  if (found.isDirectory()) {
    onProgress({ phase: 'extracting' })
    const { digest } = await store.importDirectory(path, { signal, digestOf: (directory) => packedDigest(directory, signal) })
    return digest
  }
  const digest = await digestOfFile(path, signal)
  using held = new DisposableStack()
  held.use(store.hold([digest]))
  await store.importArchive(path, digest, {
    signal,
    onBytes: (current) => onProgress({ phase: 'downloading', fileName: nameOf(uri), current, total: found.size }),
  })
  return await unpackArchive(store, { digest, path }, context)
}

async function unpackArchive(
  store: BackendStore,
  archive: { digest: Digest; path: string },
  { signal, onProgress }: InstallContext,
): Promise<Digest> {
  onProgress({ phase: 'extracting' })
  const mediaType = /\.(?:tar\.zst|tzst)$/.test(new URL(archive.path, 'file:').pathname)
    ? 'application/vnd.oci.image.layer.v1.tar+zstd'
    : 'application/vnd.oci.image.layer.v1.tar+gzip'
  await store.unpack(archive.digest, [{ digest: archive.digest, mediaType, diffId: null }], { signal })
  return archive.digest
}

/** Uncompressed: the only form that is the same with every version of Node. */
async function packedDigest(directory: string, signal: AbortSignal): Promise<Digest> {
  const layout = await mkdtemp(join(tmpdir(), 'muster-pack-'))
  try {
    return (await packDirectory(directory, { layout, compression: 'none', signal })).root.digest
  } finally {
    await rm(layout, { recursive: true, force: true })
  }
}

async function digestOfFile(path: string, signal: AbortSignal): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { signal })) hash.update(chunk as Buffer)
  return Digest.parse(`sha256:${hash.digest('hex')}`)
}

const nameOf = (uri: string): string => uri.slice(uri.lastIndexOf('/') + 1)
