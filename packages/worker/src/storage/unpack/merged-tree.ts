// Builds one tree on disk from the entries of many layers: a later layer replaces and hides entries of earlier ones.
// Entries are written only below directories that this run created, so nothing is written through a link; new files are
// opened with O_EXCL and O_NOFOLLOW, so no existing file is opened.
import { createHash, type Hash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  futimesSync,
  linkSync,
  mkdirSync,
  openSync,
  realpathSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { UnpackLimits } from '@muster/protocol'
import {
  checkLinkTarget,
  type DirectoryNode,
  type FileNode,
  parseEntryPath,
  parseWhiteout,
  type TreeNode,
  type Whiteout,
} from './tree-nodes.ts'
import { quote, refusal } from './refusal.ts'
import type { TarHeader } from './tar-reader.ts'

interface Location {
  readonly parent: DirectoryNode
  readonly name: string
  readonly path: string
}

export class MergedTree {
  readonly root: DirectoryNode = { kind: 'directory', parent: null, children: new Map(), layer: -1, mode: 0o755 }
  readonly #directory: string
  readonly #realDirectory: string
  readonly #limits: UnpackLimits
  readonly #spendSpace: (bytes: number) => void
  readonly #writer = createFileWriter()
  /** Whiteouts of this layer. Each may walk a whole directory, so a repeated one is refused. */
  readonly #whiteouts = new Set<string>()
  #layer = -1
  #entries = 0
  #bytes = 0
  #lastParent: string | null = null

  constructor({ directory, limits, spendSpace }: { directory: string; limits: UnpackLimits; spendSpace: (bytes: number) => void }) {
    this.#directory = directory
    this.#limits = limits
    this.#spendSpace = spendSpace
    mkdirSync(directory, { mode: 0o755 })
    chmodSync(directory, 0o755)
    this.#realDirectory = realpathSync.native(directory)
  }

  /** Size of all files written, including files that a later layer removed. */
  get bytes(): number {
    return this.#bytes
  }

  beginLayer(): void {
    this.#layer++
    this.#whiteouts.clear()
  }

  countEntry(): void {
    if (++this.#entries > this.#limits.entries) throw refusal('too_many_entries', `it has more than ${this.#limits.entries} entries`)
  }

  /** `write` adds the data of a regular file; `endFile` ends any entry. */
  entry(entry: TarHeader): void {
    const { parts, hasTrailingSlash } = parseEntryPath(entry.path, this.#limits)
    checkKind(entry, hasTrailingSlash)
    const name = parts.at(-1)
    if (name === undefined) {
      if (entry.type !== '5') throw refusal('root_entry', `the root entry ${quote(entry.path)} is not a directory`)
      return
    }
    if (parts.slice(0, -1).some((part) => parseWhiteout(part) !== null))
      throw refusal('whiteout', `${quote(entry.path)} is inside a whiteout`)
    const whiteout = parseWhiteout(name)
    if (whiteout !== null) this.#applyWhiteout(parts, whiteout, entry)
    else if (entry.type === '5') this.#addDirectory(parts, directoryMode(entry.mode))
    else if (entry.type === '2') this.#addSymlink(parts, entry)
    else if (entry.type === '1') this.#addHardlink(parts, entry)
    else this.#addFile(parts, entry)
  }

  write(chunk: Buffer): void {
    this.#spendSpace(chunk.length)
    this.#writer.write(chunk)
  }

  endFile(): void {
    this.#writer.close()
  }

  /** Closes the open file. The caller removes the directory. */
  abandon(): void {
    this.#writer.abandon()
  }

  #makeDirectory({ parent, name, path }: Location, mode: number): DirectoryNode {
    mkdirSync(path, { mode })
    chmodSync(path, mode)
    const made: DirectoryNode = { kind: 'directory', parent, children: new Map(), layer: this.#layer, mode }
    parent.children.set(name, made)
    return made
  }

  #placeOf(parts: readonly string[]): Location {
    const name = parts.at(-1) ?? ''
    let parent = this.root
    let path = this.#directory
    for (const part of parts.slice(0, -1)) {
      path = join(path, part)
      const next: TreeNode = parent.children.get(part) ?? this.#makeDirectory({ parent, name: part, path }, 0o755)
      if (next.kind === 'link') throw refusal('through_symlink', `${quote(parts.join('/'))} goes through the symbolic link ${quote(part)}`)
      if (next.kind === 'file') throw refusal('through_file', `${quote(parts.join('/'))} goes through the file ${quote(part)}`)
      next.layer = this.#layer
      parent = next
    }
    // The tree in memory has these as directories; the disk is checked too, in case another process changed it.
    if (path !== this.#lastParent && realpathSync.native(path) !== join(this.#realDirectory, path.slice(this.#directory.length)))
      throw refusal('through_symlink', `${quote(parts.join('/'))} is not where it should be`)
    this.#lastParent = path
    return { parent, name, path: join(path, name) }
  }

  #remove({ parent, name, path }: Location, node: TreeNode): void {
    if (node.kind === 'directory') {
      rmSync(path, { recursive: true })
      this.#lastParent = null
    } else unlinkSync(path)
    parent.children.delete(name)
  }

  /** Removes a lower layer's entry of this name; a second one in the same layer is a contradiction. */
  #clear(place: Location): void {
    const found = place.parent.children.get(place.name)
    if (found === undefined) return
    if (found.layer === this.#layer)
      throw refusal('entry_duplicate', `${quote(place.path.slice(this.#directory.length + 1))} is twice in one layer`)
    this.#remove(place, found)
  }

  /** Whiteouts hide entries of lower layers; entries of this layer stay, wherever in the archive they are. */
  #hideLower(place: Location): void {
    const found = place.parent.children.get(place.name)
    if (found === undefined) return
    if (found.layer !== this.#layer) this.#remove(place, found)
    else if (found.kind === 'directory')
      for (const name of [...found.children.keys()]) this.#hideLower({ parent: found, name, path: join(place.path, name) })
  }

  #applyWhiteout(parts: readonly string[], whiteout: Whiteout, entry: TarHeader): void {
    if (entry.type !== '0' || entry.size > 0) throw refusal('whiteout', `${quote(entry.path)} is not an empty file`)
    const key = parts.join('/')
    if (this.#whiteouts.has(key)) throw refusal('entry_duplicate', `${quote(key)} is twice in one layer`)
    this.#whiteouts.add(key)
    const parent = existingDirectory(this.root, parts)
    if (parent === null) return
    const path = join(this.#directory, ...parts.slice(0, -1))
    for (const name of whiteout.hides === 'one' ? [whiteout.name] : [...parent.children.keys()])
      this.#hideLower({ parent, name, path: join(path, name) })
  }

  #addDirectory(parts: readonly string[], mode: number): void {
    const place = this.#placeOf(parts)
    const found = place.parent.children.get(place.name)
    if (found?.kind !== 'directory') {
      this.#clear(place)
      this.#makeDirectory(place, mode)
      return
    }
    if (found.mode !== mode) chmodSync(place.path, mode)
    found.mode = mode
    found.layer = this.#layer
  }

  #addFile(parts: readonly string[], entry: TarHeader): void {
    this.#bytes += entry.size
    if (this.#bytes > this.#limits.bytes) throw refusal('too_many_bytes', `it unpacks to more than ${this.#limits.bytes} bytes`)
    const place = this.#placeOf(parts)
    this.#clear(place)
    const node: FileNode = { kind: 'file', layer: this.#layer, mode: fileMode(entry.mode), size: entry.size, sha256: '' }
    place.parent.children.set(place.name, node)
    this.#writer.open({ path: place.path, mode: node.mode, mtime: entry.mtime, onHash: (sha256) => void (node.sha256 = sha256) })
  }

  #addSymlink(parts: readonly string[], entry: TarHeader): void {
    checkLinkTarget(parts, entry.linkPath)
    const place = this.#placeOf(parts)
    this.#clear(place)
    symlinkSync(entry.linkPath, place.path)
    place.parent.children.set(place.name, { kind: 'link', layer: this.#layer, target: entry.linkPath })
  }

  #addHardlink(parts: readonly string[], entry: TarHeader): void {
    const target = hardlinkTarget(entry, this.#limits)
    const found = findNode(this.root, target)
    if (found === null) throw refusal('hardlink_target', `${linkText(entry)}, which does not exist`)
    if (found.kind !== 'file') throw refusal('hardlink_target', `${linkText(entry)}, which is not a regular file`)
    if (parts.every((part, at) => part === target[at])) throw refusal('hardlink_target', `${linkText(entry)}, which it would replace`)
    const place = this.#placeOf(parts)
    this.#clear(place)
    linkSync(join(this.#directory, ...target), place.path)
    place.parent.children.set(place.name, { ...found, layer: this.#layer })
  }
}

function checkKind(entry: TarHeader, hasTrailingSlash: boolean): void {
  if (entry.type === 'S') throw refusal('archive_sparse', `${quote(entry.path)} is a sparse file`)
  if (!['0', '1', '2', '5'].includes(entry.type))
    throw refusal('entry_type', `${quote(entry.path)} is ${kinds[entry.type] ?? `of the unknown type ${quote(entry.type)}`}`)
  if (entry.type !== '0' && entry.size > 0) throw refusal('archive_size', `${quote(entry.path)} is not a file but has ${entry.size} bytes`)
  if (entry.type !== '5' && hasTrailingSlash) throw refusal('path_form', `${quote(entry.path)} is named like a directory but is not one`)
}

const kinds: Readonly<Record<string, string>> = { '3': 'a character device', '4': 'a block device', '6': 'a pipe', s: 'a socket' }

/** No setuid, setgid or sticky bit; writable only by the owner, who can always read. */
function fileMode(mode: number): number {
  return (mode & 0o755) | 0o400
}

function directoryMode(mode: number): number {
  return (mode & 0o755) | 0o700
}

function findNode(root: DirectoryNode, parts: readonly string[]): TreeNode | null {
  let at: TreeNode = root
  for (const part of parts) {
    if (at.kind === 'link') throw refusal('through_symlink', `${quote(parts.join('/'))} goes through a symbolic link`)
    const next: TreeNode | undefined = at.kind === 'directory' ? at.children.get(part) : undefined
    if (next === undefined) return null
    at = next
  }
  return at
}

function existingDirectory(root: DirectoryNode, parts: readonly string[]): DirectoryNode | null {
  const found = findNode(root, parts.slice(0, -1))
  if (found?.kind === 'link') throw refusal('through_symlink', `${quote(parts.join('/'))} goes through a symbolic link`)
  return found?.kind === 'directory' ? found : null
}

function hardlinkTarget(entry: TarHeader, limits: UnpackLimits): readonly string[] {
  if (entry.linkPath.startsWith('/') || entry.linkPath.split('/').includes('..'))
    throw refusal('hardlink_escape', `${linkText(entry)}, which may leave the tree`)
  return parseEntryPath(entry.linkPath, limits).parts
}

function linkText(entry: TarHeader): string {
  return `the hard link ${quote(entry.path)} to ${quote(entry.linkPath)}`
}

interface NewFile {
  readonly path: string
  readonly mode: number
  readonly mtime: number
  readonly onHash: (sha256: string) => void
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/**
 * Writes one new file at a time and hashes it. Synchronous on purpose: in a thread of its own, queueing one small write
 * after the other costs more than the writes.
 */
function createFileWriter() {
  let current: { readonly file: NewFile; readonly fd: number; readonly hash: Hash } | null = null
  return {
    open: (file: NewFile): void => {
      const fd = openSync(file.path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600)
      current = { file, fd, hash: createHash('sha256') }
    },
    write: (chunk: Buffer): void => {
      if (current === null) throw new Error('no file is open')
      current.hash.update(chunk)
      for (let at = 0; at < chunk.length;) at += writeSync(current.fd, chunk, at)
    },
    /** Does nothing when no file is open, as after links and directories. */
    close: (): void => {
      if (current === null) return
      const { file, fd, hash } = current
      fchmodSync(fd, file.mode)
      // Interpreters that keep compiled files beside their sources compare modification times.
      futimesSync(fd, file.mtime, file.mtime)
      closeSync(fd)
      current = null
      file.onHash(hash.digest('hex'))
    },
    abandon: (): void => {
      if (current !== null) closeSync(current.fd)
      current = null
    },
  }
}
