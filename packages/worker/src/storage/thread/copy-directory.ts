// Builds a tree from a directory of this machine, under the same rules as from an archive.
import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readlinkSync, readSync, realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { quote, refusal } from '../refusal.ts'
import type { TarHeader } from '../tar/tar-header.ts'
import { MergedTree } from '../unpack/merged-tree.ts'
import { createSpaceGuard } from '../unpack/space-guard.ts'
import type { TreeSummary } from '../unpack/tree-manifest.ts'
import { finishTree } from './finish-tree.ts'
import type { CopyJob, JobContext } from './job.ts'

const bufferBytes = 512 * 1024

export async function copyDirectory(job: CopyJob, context: JobContext): Promise<TreeSummary> {
  const { staging, limits, from } = job
  const tree = new MergedTree({ directory: join(staging, 'root'), limits, space: createSpaceGuard(staging, job.keepFreeBytes) })
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
  // Lets a cancellation in.
  await nextTurn()
  signal.throwIfAborted()
  for (const found of readdirSync(join(root, prefix), { withFileTypes: true })) {
    const path = prefix + found.name
    yield path
    if (found.isDirectory()) yield* walkSource(root, `${path}/`, signal)
  }
}

interface Entry {
  readonly tree: MergedTree
  readonly from: string
  readonly path: string
}

function copyEntry({ tree, from, path }: Entry, sign: () => void): void {
  const source = join(from, path)
  const found = lstatSync(source)
  const header = { path, linkPath: '', size: 0, mode: found.mode & 0o7777, mtime: Math.max(0, Math.floor(found.mtimeMs / 1000)) }
  tree.countEntry()
  // A layer could not have it, so that the packed directory would be another one.
  if (basename(path).startsWith('.wh.')) throw refusal('whiteout', `${quote(path)} is named like a whiteout`)
  if (found.isFile()) copyFile({ tree, source }, { ...header, type: '0', size: found.size }, sign)
  else if (found.isDirectory()) tree.entry({ ...header, type: '5' })
  else if (found.isSymbolicLink()) tree.entry({ ...header, type: '2', linkPath: readlinkSync(source) })
  else throw refusal('entry_type', `${quote(path)} is neither a file nor a directory nor a link`)
}

function copyFile({ tree, source }: { readonly tree: MergedTree; readonly source: string }, header: TarHeader, sign: () => void): void {
  const fd = openSync(source, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    if (!fstatSync(fd).isFile()) throw refusal('entry_type', `${quote(header.path)} is no regular file any more`)
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
