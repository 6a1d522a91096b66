// Builds a tree from verified layers, lowest first.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { errorCode } from '@muster/host'
import { quote, refusal, type RefusalReason } from '../refusal.ts'
import { TarReader } from '../tar/tar-reader.ts'
import { compressionOf, decompress } from '../unpack/decompress.ts'
import { MergedTree } from '../unpack/merged-tree.ts'
import { createSpaceGuard } from '../unpack/space-guard.ts'
import type { TreeSummary } from '../unpack/tree-manifest.ts'
import { finishTree } from './finish-tree.ts'
import type { JobContext, UnpackJob } from './job.ts'

export async function unpackLayers(job: UnpackJob, context: JobContext): Promise<TreeSummary> {
  const { staging, limits, layers } = job
  const directory = join(staging, 'root')
  const tree = new MergedTree({ directory, limits, space: createSpaceGuard(staging, job.keepFreeBytes) })
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

interface LayerTarget {
  readonly layer: UnpackJob['layers'][number]
  readonly tree: MergedTree
}

type OnChunk = (unpackedBytes: number, packedBytes: number) => Promise<void>

/** The size of the layer without its compression. */
async function applyLayer({ layer, tree }: LayerTarget, signal: AbortSignal, onChunk: OnChunk): Promise<number> {
  const hash = createHash('sha256')
  const reader = new TarReader({
    header: () => tree.countEntry(),
    entry: (entry) => tree.entry(entry),
    data: (chunk) => tree.write(chunk),
    end: () => tree.endFile(),
  })
  let bytes = 0
  const packed = { path: layer.path, size: layer.size, compression: compressionOf(layer.mediaType) }
  const consume = async ({ chunk, packedBytes }: { chunk: Buffer; packedBytes: number }): Promise<void> => {
    signal.throwIfAborted()
    hash.update(chunk)
    bytes += chunk.length
    reader.push(chunk)
    await onChunk(bytes, packedBytes)
  }
  await decompress(packed, consume, signal)
  reader.finish()
  const diffId = `sha256:${hash.digest('hex')}`
  if (layer.diffId !== null && diffId !== layer.diffId)
    throw refusal('diff_id', `the layer ${layer.digest} unpacks to ${diffId}, and should to ${layer.diffId}`)
  return bytes
}

function checkRatio({ limits }: UnpackJob, unpacked: number, packed: number): void {
  if (unpacked > limits.ratioFreeBytes && unpacked > packed * limits.ratio)
    throw refusal('compression_ratio', `it unpacks to more than ${limits.ratio} times its size`)
}

const refusalReasons: Readonly<Record<string, RefusalReason>> = {
  // On a file system that takes two names for one.
  EEXIST: 'entry_duplicate',
  ENAMETOOLONG: 'path_length',
  EILSEQ: 'path_encoding',
  EMLINK: 'hardlink_target',
  ELOOP: 'through_symlink',
  ENOTDIR: 'through_file',
}

/** What this machine's file system refuses is the archive's fault in these cases. */
function refusalOf(error: unknown): unknown {
  const reason = refusalReasons[String(errorCode(error))]
  return reason === undefined || !(error instanceof Error)
    ? error
    : refusal(reason, `the file system does not take ${quote(error.message)}`)
}
