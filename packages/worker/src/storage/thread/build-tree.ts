// Builds a tree in a staging directory: from verified layers, lowest first, or from a directory of this machine, under the
// same rules. The end is the same for both: links are checked, the entry point is checked, the manifest is written, and
// everything is synced.
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readlinkSync, readSync, realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errorCode } from '@muster/host'
import { createSpaceGuard } from '../disk-space.ts'
import { quote, refusal, type RefusalReason } from '../unpack/refusal.ts'
import { withSigns } from '../signs.ts'
import { type TarHeader, TarReader, type TarSink } from '../unpack/tar-reader.ts'
import { checkArtifact, type TreeLayer, type TreeSummary, writeManifest } from '../unpack/tree-manifest.ts'
import { compressionOf, decompress, detectArchive, type PackedLayer, type UnpackedChunk } from '../unpack/decompress.ts'
import { MergedTree } from '../unpack/merged-tree.ts'
import { checkLinks, type DirectoryNode, findCollisions, walkNodes } from '../unpack/tree-nodes.ts'
import { syncPath, syncTree } from '../unpack/sync.ts'
import type { ArchiveJob, BuildJobOptions, CopyJob, JobContext, UnpackedArchive, UnpackJob } from './jobs.ts'

export async function unpackLayers(job: UnpackJob, context: JobContext): Promise<TreeSummary> {
  const { staging, limits, layers } = job
  const directory = join(staging, 'root')
  const tree = new MergedTree({ directory, limits, spendSpace: createSpaceGuard(staging, job.keepFreeBytes) })
  const total = layers.reduce((sum, layer) => sum + layer.size, 0)
  let packed = 0
  let unpacked = 0
  let isMidReported = false
  try {
    for (const layer of layers) {
      tree.beginLayer()
      const unpackedBefore = unpacked
      unpacked += await applyLayer({ layer, tree }, context.signal, async (at, packedBytes) => {
        checkRatio(job, unpackedBefore + at, packed + packedBytes)
        context.progress(packed + packedBytes, total)
        if (isMidReported || tree.bytes === 0) return
        isMidReported = true
        await context.step('W.unpack.mid')
      })
      packed += layer.size
    }
  } catch (error) {
    throw refusalOf(error)
  } finally {
    tree.abandon()
  }
  return finishTree(
    { staging, root: tree.root, bytes: tree.bytes, layers: layers.map(({ digest, mediaType, diffId }) => ({ digest, mediaType, diffId })) },
    context,
  )
}

/** Unpacks an archive that is not a backend, into `root` of the staging directory. */
export async function unpackArchive(job: ArchiveJob, context: JobContext): Promise<UnpackedArchive> {
  const { staging, limits, path, size } = job
  const { signal, sign } = context
  const directory = join(staging, 'root')
  const tree = new MergedTree({ directory, limits, spendSpace: createSpaceGuard(staging, job.keepFreeBytes) })
  let isMidReported = false
  const onChunk: OnChunk = async (unpacked, packed) => {
    checkRatio(job, unpacked, packed)
    context.progress(packed, size)
    if (isMidReported || tree.bytes === 0) return
    isMidReported = true
    await context.step('W.unpack.mid')
  }
  tree.beginLayer()
  try {
    const format = await detectArchive(path)
    const sink = sinkOf(tree)
    if (format === 'zip') await (await import('../unpack/zip-reader.ts')).readZip({ path, size, sink, onChunk, signal })
    else await readTar({ packed: { path, size, compression: format }, sink, onChunk, signal })
  } catch (error) {
    throw refusalOf(error)
  } finally {
    tree.abandon()
  }
  checkLinks(tree.root)
  const nodes = [...walkNodes(tree.root)]
  await withSigns(sign, () => syncTree({ directory, root: tree.root, entries: nodes.length }, signal))
  return nodes.flatMap(({ path: at, node }) =>
    node.kind === 'directory' ? [] : [{ path: at, size: node.kind === 'file' ? node.size : 0 }],
  )
}

const sinkOf = (tree: MergedTree): TarSink => ({
  header: () => tree.countEntry(),
  entry: (entry) => tree.entry(entry),
  data: (chunk) => tree.write(chunk),
  end: () => tree.endFile(),
})

type TarQuery = Readonly<{ packed: PackedLayer; sink: TarSink; onChunk: OnChunk; signal: AbortSignal; onBytes?: (chunk: Buffer) => void }>

/** Returns the uncompressed size. */
async function readTar({ packed, sink, onChunk, signal, onBytes }: TarQuery): Promise<number> {
  const reader = new TarReader(sink)
  let bytes = 0
  const consume = async ({ chunk, packedBytes }: UnpackedChunk): Promise<void> => {
    signal.throwIfAborted()
    onBytes?.(chunk)
    bytes += chunk.length
    reader.push(chunk)
    await onChunk(bytes, packedBytes)
  }
  await decompress(packed, consume, signal)
  reader.finish()
  return bytes
}

type OnChunk = (unpackedBytes: number, packedBytes: number) => Promise<void>

/** Returns the uncompressed size of the layer. */
async function applyLayer(
  { layer, tree }: { layer: UnpackJob['layers'][number]; tree: MergedTree },
  signal: AbortSignal,
  onChunk: OnChunk,
): Promise<number> {
  const hash = createHash('sha256')
  const packed = { path: layer.path, size: layer.size, compression: compressionOf(layer.mediaType) }
  const bytes = await readTar({ packed, sink: sinkOf(tree), onChunk, signal, onBytes: (chunk) => void hash.update(chunk) })
  const diffId = `sha256:${hash.digest('hex')}`
  if (layer.diffId !== null && diffId !== layer.diffId)
    throw refusal('diff_id', `the layer ${layer.digest} unpacks to ${diffId}; expected ${layer.diffId}`)
  return bytes
}

function checkRatio({ limits }: BuildJobOptions, unpacked: number, packed: number): void {
  if (unpacked > limits.ratioFreeBytes && unpacked > packed * limits.ratio)
    throw refusal('compression_ratio', `it unpacks to more than ${limits.ratio} times its size`)
}

const refusalReasons: Readonly<Record<string, RefusalReason>> = {
  // On a file system that treats two names as one.
  EEXIST: 'entry_duplicate',
  ENAMETOOLONG: 'path_length',
  EILSEQ: 'path_encoding',
  EMLINK: 'hardlink_target',
  ELOOP: 'through_symlink',
  ENOTDIR: 'through_file',
}

/** In these cases an error of the file system is the archive's fault. */
function refusalOf(error: unknown): unknown {
  const reason = refusalReasons[String(errorCode(error))]
  return reason === undefined || !(error instanceof Error)
    ? error
    : refusal(reason, `the file system does not accept ${quote(error.message)}`)
}

const bufferBytes = 512 * 1024

export async function copyDirectory(job: CopyJob, context: JobContext): Promise<TreeSummary> {
  const { staging, limits, from } = job
  const tree = new MergedTree({ directory: join(staging, 'root'), limits, spendSpace: createSpaceGuard(staging, job.keepFreeBytes) })
  tree.beginLayer()
  try {
    const root = realpathSync(from)
    for await (const path of walkSource(root, '', context.signal)) {
      copyEntry({ tree, from: root, path }, context.sign)
    }
  } finally {
    tree.abandon()
  }
  return finishTree({ staging, root: tree.root, bytes: tree.bytes, layers: [] }, context)
}

async function* walkSource(root: string, prefix: string, signal: AbortSignal): AsyncGenerator<string> {
  // Lets a cancellation message arrive.
  await nextTurn()
  signal.throwIfAborted()
  for (const found of readdirSync(join(root, prefix), { withFileTypes: true })) {
    const path = prefix + found.name
    yield path
    if (found.isDirectory()) yield* walkSource(root, `${path}/`, signal)
  }
}

function copyEntry({ tree, from, path }: { tree: MergedTree; from: string; path: string }, sign: () => void): void {
  const source = join(from, path)
  const found = lstatSync(source)
  const header = { path, linkPath: '', size: 0, mode: found.mode & 0o7777, mtime: Math.max(0, Math.floor(found.mtimeMs / 1000)) }
  tree.countEntry()
  // A layer cannot contain such a file, so the packed directory would differ from this one.
  if (basename(path).startsWith('.wh.')) throw refusal('whiteout', `${quote(path)} is named like a whiteout`)
  if (found.isFile()) copyFile({ tree, source }, { ...header, type: '0', size: found.size }, sign)
  else if (found.isDirectory()) tree.entry({ ...header, type: '5' })
  else if (found.isSymbolicLink()) tree.entry({ ...header, type: '2', linkPath: readlinkSync(source) })
  else throw refusal('entry_type', `${quote(path)} is neither a file nor a directory nor a link`)
}

function copyFile({ tree, source }: { readonly tree: MergedTree; readonly source: string }, header: TarHeader, sign: () => void): void {
  const fd = openSync(source, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    if (!fstatSync(fd).isFile()) throw refusal('entry_type', `${quote(header.path)} is not a regular file anymore`)
    tree.entry(header)
    const buffer = Buffer.allocUnsafe(bufferBytes)
    let copied = 0
    for (let bytes = readSync(fd, buffer); bytes > 0; bytes = readSync(fd, buffer)) {
      copied += bytes
      if (copied > header.size) break
      tree.write(buffer.subarray(0, bytes))
      sign()
    }
    if (copied !== header.size) throw refusal('archive_truncated', `${quote(header.path)} changed while it was copied`)
    tree.endFile()
  } finally {
    closeSync(fd)
  }
}

const collisionsShown = 20

async function finishTree(
  { staging, root, bytes, layers }: { staging: string; root: DirectoryNode; bytes: number; layers: readonly TreeLayer[] },
  { signal, sign }: JobContext,
): Promise<TreeSummary> {
  const directory = join(staging, 'root')
  checkLinks(root)
  const backend = checkArtifact(root, directory)
  const entries = walkNodes(root).reduce((count) => count + 1, 0)
  const summary: TreeSummary = {
    format: 1,
    layers: [...layers],
    entries,
    bytes,
    backend,
    collisions: findCollisions(root, collisionsShown),
  }
  writeManifest(join(staging, 'manifest'), summary, root)
  await withSigns(sign, () => syncTree({ directory, root, entries }, signal))
  await syncPath(staging)
  return summary
}
