// Pulls an archive (.tar.gz, .tar.zst) by https, or imports an archive or a directory of this machine. An archive becomes a
// tree of one layer.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Clock, errorMessage } from '@muster/host'
import { packedDigest, type FileClient } from '@muster/source'
import { Digest, FleetError } from '@muster/protocol'
import type { InstallContext } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import { withSigns } from '../storage/signs.ts'
import { fetchFromMirrors } from '../storage/mirrors.ts'

type Deps = Readonly<{ store: BackendStore; archives: FileClient; clock: Clock }>
/** With `repair` an existing tree is compared with the new content and repaired. */
type ExistingTree = Readonly<{ onExisting?: 'repair' }>
type LocalContext = Pick<InstallContext, 'signal' | 'onProgress' | 'onSign'>

export async function pullArchive(
  deps: Deps,
  { uris, digest, ...onExisting }: ExistingTree & Readonly<{ uris: readonly [string, ...string[]]; digest: Digest | null }>,
  context: InstallContext,
): Promise<Digest> {
  const { store, archives } = deps
  const { signal, onProgress, onSign } = context
  const [uri] = uris
  if (digest === null) throw invalid(`the archive ${uri} needs a sha256 to verify its content`)
  using held = new DisposableStack()
  held.use(store.hold([digest]))
  let total = 0
  let server = new URL(uri).host
  const mirrors = uris.map((each) => async (offset: number) => {
    const url = new URL(each)
    server = url.host
    const opened = await archives(url, { offset, signal, onWait: (cause, ms) => context.onWait?.(cause.message, ms) })
    total = opened.size ?? 0
    return opened
  })
  onProgress({ phase: 'downloading', fileName: nameOf(uri), server })
  const onBytes = (current: number): void =>
    onProgress({ phase: 'downloading', fileName: nameOf(uri), current, total: Math.max(total, current), server })
  await fetchFromMirrors(deps, { digest, size: null, mirrors }, { signal, onBytes, onSign })
  return await unpackArchive(store, { digest, path: uri, ...onExisting }, context)
}

/** The digest is that of the archive, or of the directory as `muster pack` would pack it. */
export async function importLocal(
  store: BackendStore,
  { uri, digest: wanted, ...onExisting }: ExistingTree & Readonly<{ uri: string; digest: Digest | null }>,
  context: LocalContext,
): Promise<Digest> {
  const { signal, onProgress, onSign } = context
  const path = pathOf(uri)
  const found = await stat(path).catch(() => null)
  if (found === null) throw new FleetError({ code: 'not_found', retry: 'never', message: `${path} does not exist on this machine` })
  using held = new DisposableStack()
  if (found.isDirectory()) {
    onProgress({ phase: 'extracting' })
    const digestOf = async (directory: string): Promise<Digest> => {
      const packed = requireDigest(await withSigns(onSign, () => packedDigest(directory, signal)), { wanted, path })
      held.use(store.hold([packed]))
      return packed
    }
    return (await store.importDirectory(path, { signal, onSign, ...onExisting, digestOf })).digest
  }
  // A device or a pipe may be endless.
  if (!found.isFile()) throw invalid(`${path} is neither a directory nor an archive`)
  const digest = requireDigest(await withSigns(onSign, () => digestOfFile(path, signal)), { wanted, path })
  held.use(store.hold([digest]))
  await store.importArchive(path, digest, {
    signal,
    onSign,
    onBytes: (current) => onProgress({ phase: 'downloading', fileName: nameOf(uri), current, total: found.size }),
  })
  return await unpackArchive(store, { digest, path, ...onExisting }, context)
}

function pathOf(uri: string): string {
  try {
    return fileURLToPath(uri)
  } catch (error) {
    throw invalid(`${JSON.stringify(uri)} is not a file URL of this machine: ${errorMessage(error)}`)
  }
}

/** Not tried again: a path that has changed since the operation does not change back. */
function requireDigest(digest: Digest, { wanted, path }: { wanted: Digest | null; path: string }): Digest {
  if (wanted === null || wanted === digest) return digest
  throw new FleetError({ code: 'integrity', retry: 'never', message: `${path} has the digest ${digest}; expected ${wanted}` })
}

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

async function unpackArchive(
  store: BackendStore,
  { digest, path, ...onExisting }: ExistingTree & Readonly<{ digest: Digest; path: string }>,
  { signal, onProgress, onSign }: LocalContext,
): Promise<Digest> {
  onProgress({ phase: 'extracting' })
  const mediaType = /\.(?:tar\.zst|tzst)$/.test(new URL(path, 'file:').pathname)
    ? 'application/vnd.oci.image.layer.v1.tar+zstd'
    : 'application/vnd.oci.image.layer.v1.tar+gzip'
  await store.unpack(digest, [{ digest, mediaType, diffId: null }], { signal, onSign, ...onExisting })
  return digest
}

async function digestOfFile(path: string, signal: AbortSignal): Promise<Digest> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { signal })) hash.update(chunk as Buffer)
  return Digest.parse(`sha256:${hash.digest('hex')}`)
}

const nameOf = (uri: string): string => uri.slice(uri.lastIndexOf('/') + 1)
