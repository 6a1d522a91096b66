// A store in a temporary directory, with helpers for tests.
import { chmod, mkdir, readdir, readFile, readlink, lstat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { systemClock } from '@muster/host'
import { BackendName, Digest } from '@muster/protocol'
import { layerOf, makeTempDir, sha256, tar, type Layer, type TarEntry, type TempDir } from '@muster/testkit'
import { openBackendStore, type BackendStore, type BackendStoreOptions } from '../src/storage/backend-store.ts'
import type { InstalledRecord } from '../src/storage/records.ts'
import type { TreeSummary } from '../src/storage/unpack/tree-manifest.ts'
import { recordingLog, type RecordingLog } from './recording-log.ts'
import { sharedThreads } from './shared-threads.ts'

export const never = new AbortController().signal
export const runSh: TarEntry = { path: 'run.sh', data: '#!/bin/sh\n', mode: 0o755 }

export interface TestStore extends AsyncDisposable {
  readonly store: BackendStore
  readonly root: string
  readonly log: RecordingLog
  readonly temp: TempDir
  put(layer: Layer): Promise<void>
  /** Names the tree after its last layer. */
  install(layers: readonly Layer[], options?: InstallOptions): Promise<TreeSummary>
  /** The same directory, as after a restart. */
  reopen(options?: Partial<BackendStoreOptions>): Promise<TestStore>
}

export interface InstallOptions {
  readonly signal?: AbortSignal
  readonly onExisting?: 'repair'
}

export async function makeTestStore(options: Partial<BackendStoreOptions> = {}): Promise<TestStore> {
  return openIn(await makeTempDir('store'), options)
}

async function openIn(temp: TempDir, options: Partial<BackendStoreOptions>): Promise<TestStore> {
  const root = options.root ?? join(temp.path, 'data')
  const log = recordingLog()
  const store = await openBackendStore({ threads: sharedThreads, clock: systemClock, log, keepFreeBytes: 0, ...options, root })
  const put = (layer: Layer): Promise<void> => putLayer(store, layer)
  return {
    store,
    root,
    log,
    temp,
    put,
    install: async (layers, { signal = never, ...rest } = {}) => {
      for (const layer of layers) await put(layer)
      return store.unpack(treeOf(layers), layersOf(layers), { signal, ...rest })
    },
    reopen: (again = {}) => openIn(temp, { ...options, ...again }),
    [Symbol.asyncDispose]: () => temp.remove(),
  }
}

async function putLayer(store: BackendStore, layer: Layer): Promise<void> {
  await store.fetchBlob(
    { digest: Digest.parse(layer.digest), size: layer.size, open: async (offset) => ({ stream: streamOf(layer.bytes, offset), offset }) },
    { signal: never },
  )
}

export function streamOf(bytes: Buffer, offset = 0, pieceBytes = 65_536): Readable {
  const rest = bytes.subarray(offset)
  return Readable.from(
    Array.from({ length: Math.ceil(rest.length / pieceBytes) }, (_, at) => rest.subarray(at * pieceBytes, (at + 1) * pieceBytes)),
  )
}

export function treeOf(layers: readonly Layer[]): Digest {
  return Digest.parse(sha256(Buffer.from(layers.map(({ digest }) => digest).join())))
}

export function layersOf(layers: readonly Layer[]): { digest: Digest; mediaType: string; diffId: Digest }[] {
  return layers.map(({ digest, mediaType, diffId }) => ({ digest: Digest.parse(digest), mediaType, diffId: Digest.parse(diffId) }))
}

/** A backend that differs from others by `text`. */
export function backendLayer(text: string): Layer {
  return layerOf(tar([runSh, { path: 'version', data: text }]))
}

export function recordOf(name: string, tree: Digest, version = '1'): InstalledRecord {
  return {
    name: BackendName.parse(name),
    is_meta: false,
    concrete: null,
    alias: null,
    version,
    digest: tree,
    index_digest: null,
    is_manifest_pinned: false,
    uri: `oci://registry.example/${name}:${version}`,
    gallery_url: '',
    installed_at: '2026-01-01T00:00:00.000Z',
  }
}

/** Everything below a directory: modes, targets and contents by path. */
export async function snapshot(directory: string, prefix = ''): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const name of (await readdir(join(directory, prefix))).toSorted()) {
    const path = join(prefix, name)
    const full = join(directory, path)
    const stats = await lstat(full)
    const mode = (stats.mode & 0o7777).toString(8)
    if (stats.isSymbolicLink()) found[path] = `-> ${await readlink(full)}`
    else if (stats.isDirectory()) Object.assign(found, { [path]: `directory ${mode}` }, await snapshot(directory, path))
    else found[path] = stats.isFile() ? `${mode} ${await readFile(full, 'utf8')}` : 'something else'
  }
  return found
}

/** Files outside the data directory that must stay unchanged (I19). */
export async function plantCanary(directory: string): Promise<() => Promise<Record<string, string>>> {
  const look = (): Promise<Record<string, string>> => snapshot(directory)
  for (const name of ['outside', 'x', 'etc', 'a', 'target']) {
    await mkdir(join(directory, 'canary', name), { recursive: true })
    await writeFile(join(directory, 'canary', name, 'passwd'), `of ${name}`)
    await chmod(join(directory, 'canary', name, 'passwd'), 0o640)
  }
  return look
}
