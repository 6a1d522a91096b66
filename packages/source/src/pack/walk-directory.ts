// Lists a directory in packing order. Refuses content that a worker would refuse to unpack, with the reason.
import { constants } from 'node:fs'
import { lstat, open, readdir, readlink, realpath } from 'node:fs/promises'
import { join, posix, sep } from 'node:path'
import { errorMessage } from '@muster/host'
import { defaultUnpackLimits as limits, FleetError } from '@muster/protocol'
import type { TarEntry, TarSource } from './tar-writer.ts'

interface Walk {
  readonly root: string
  readonly realRoot: string
  readonly signal: AbortSignal
  readonly found: TarSource[]
}

/** Parents before children, names in the order of their bytes. */
export async function walkDirectory(root: string, signal: AbortSignal): Promise<TarSource[]> {
  const own = await lstat(root).catch((error: unknown) => {
    throw refusal(`cannot pack ${root}: ${errorMessage(error)}`)
  })
  const realRoot = await realpath(root)
  if (!own.isDirectory() && !(await lstat(realRoot)).isDirectory()) throw refusal(`cannot pack ${root}: it is not a directory`)
  const walk: Walk = { root: realRoot, realRoot, signal, found: [] }
  await visit(walk, '')
  const bytes = walk.found.reduce((total, { entry }) => total + entry.sizeBytes, 0)
  if (bytes > limits.bytes) throw refusal(`${root} has ${bytes} bytes; a worker unpacks at most ${limits.bytes}`)
  return walk.found
}

async function visit(walk: Walk, directory: string): Promise<void> {
  walk.signal.throwIfAborted()
  // As bytes: a name that is not UTF-8 would be different in the image.
  const names = await readdir(join(walk.root, directory), { encoding: 'buffer' })
  for (const bytes of names.toSorted(Buffer.compare)) {
    const name = readName(bytes, directory)
    const path = directory === '' ? name : `${directory}/${name}`
    const source = await describe(walk, path)
    if (walk.found.push(source) > limits.entries) throw refusal(`there are more than ${limits.entries} files; a worker unpacks no more`)
    if (source.entry.kind === 'directory') await visit(walk, path)
  }
}

function readName(bytes: Buffer, directory: string): string {
  const name = bytes.toString('utf8')
  const shown = JSON.stringify(directory === '' ? name : `${directory}/${name}`)
  if (!Buffer.from(name).equals(bytes)) throw refusal(`the name ${shown} is not UTF-8`)
  if (name.startsWith('.wh.')) throw refusal(`the name ${shown} means "deleted" in an image layer`)
  if (bytes.length > limits.nameBytes || Buffer.byteLength(directory) + bytes.length + 2 > limits.pathBytes)
    throw refusal(`the name ${shown} is too long`)
  if (directory.split('/').length >= limits.depth) throw refusal(`${shown} is nested deeper than ${limits.depth} directories`)
  return name
}

async function describe(walk: Walk, path: string): Promise<TarSource> {
  const full = join(walk.root, path)
  const stats = await lstat(full)
  const plain: TarEntry = { path, kind: 'file', isExecutable: false, sizeBytes: 0, target: '' }
  if (stats.isDirectory()) return { entry: { ...plain, kind: 'directory' }, open: nothing }
  if (stats.isSymbolicLink()) return { entry: { ...plain, kind: 'link', target: await readTarget(walk, path) }, open: nothing }
  if (!stats.isFile()) throw refusal(`${path} is neither a file, a directory nor a symbolic link`)
  if ((stats.mode & 0o6000) !== 0) throw refusal(`${path} is setuid or setgid: a backend gains no rights by being started (chmod ug-s it)`)
  const entry = { ...plain, isExecutable: (stats.mode & 0o111) !== 0, sizeBytes: stats.size }
  return { entry, open: () => readExactly(full, entry) }
}

/** A link may lead anywhere inside the directory, also over other links, and nowhere else. */
async function readTarget({ root, realRoot }: Walk, path: string): Promise<string> {
  const target = await readlink(join(root, path))
  if (posix.isAbsolute(target)) throw refusal(`${path} is a link to the absolute path ${target}`)
  const meant = posix.normalize(posix.join(posix.dirname(path), target))
  if (meant === '..' || meant.startsWith('../')) throw refusal(`${path} is a link that leads out of the directory, to ${target}`)
  const real = await realpath(join(root, path)).catch(() => null)
  if (real !== null && real !== realRoot && !real.startsWith(realRoot + sep))
    throw refusal(`${path} is a link that leads out of the directory, to ${target}`)
  return target
}

async function* readExactly(full: string, { path, sizeBytes }: TarEntry): AsyncGenerator<Uint8Array> {
  await using file = await open(full, constants.O_RDONLY | constants.O_NOFOLLOW)
  let read = 0
  for await (const chunk of file.createReadStream({ autoClose: false, highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>) {
    read += chunk.length
    if (read > sizeBytes) break
    yield chunk
  }
  if (read !== sizeBytes) {
    throw new FleetError({
      code: 'conflict',
      retry: 'backoff',
      message: `${path} changed while it was packed; pack it again when no process writes to it`,
    })
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  // Directories and links have no content.
}

const refusal = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })
