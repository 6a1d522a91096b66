// The merged tree in memory: the entries of each directory, the layer that each came from, and the checks of names, links and
// the finished tree. Nothing is normalized: an invalid name is refused.
import type { UnpackLimits } from '@muster/protocol'
import { quote, refusal } from './refusal.ts'

export interface DirectoryNode {
  readonly kind: 'directory'
  readonly parent: DirectoryNode | null
  readonly children: Map<string, TreeNode>
  /** The last layer that named the directory or added an entry to it. */
  layer: number
  mode: number
}

export interface FileNode {
  readonly kind: 'file'
  readonly layer: number
  readonly mode: number
  readonly size: number
  sha256: string
}

export interface LinkNode {
  readonly kind: 'link'
  readonly layer: number
  readonly target: string
}

export type TreeNode = DirectoryNode | FileNode | LinkNode

export interface PlacedNode {
  readonly path: string
  readonly node: TreeNode
  readonly parent: DirectoryNode
}

/** Parents first, names in character order: the same tree gives the same list. */
export function* walkNodes(directory: DirectoryNode, prefix = ''): Generator<PlacedNode> {
  for (const name of [...directory.children.keys()].toSorted(byCharacters)) {
    const node = directory.children.get(name)
    if (node === undefined) continue
    const path = prefix + name
    yield { path, node, parent: directory }
    if (node.kind === 'directory') yield* walkNodes(node, `${path}/`)
  }
}

function byCharacters(a: string, b: string): number {
  return a < b ? -1 : 1
}

/** Names that a file system which ignores case or composition would treat as one. */
export function findCollisions(root: DirectoryNode, most: number): string[] {
  const found: string[] = []
  const look = (directory: DirectoryNode, prefix: string): void => {
    const seen = new Map<string, string>()
    for (const [name, node] of directory.children) {
      const folded = name.normalize('NFC').toLowerCase()
      const other = seen.get(folded)
      if (other !== undefined && found.length < most) found.push(`${prefix}${other} and ${prefix}${name}`)
      seen.set(folded, name)
      if (node.kind === 'directory') look(node, `${prefix}${name}/`)
    }
  }
  look(root, '')
  return found
}

/** The kernel's limit: a longer chain or a loop cannot be followed. */
const mostLinks = 40

/**
 * Follows every symbolic link as the kernel would, through other links, and refuses one that leaves the root on its way.
 * The text alone is not enough: behind `a/b -> ../..` a `..` means another directory.
 */
export function checkLinks(root: DirectoryNode): void {
  for (const { path, node, parent } of walkNodes(root)) {
    if (node.kind === 'link' && leavesRoot(parent, node.target))
      throw refusal('symlink_escape', `the symbolic link ${quote(path)} to ${quote(node.target)} leads out of the tree through other links`)
  }
}

function leavesRoot(from: DirectoryNode, target: string): boolean {
  const rest = target.split('/').toReversed()
  let at = from
  let followed = 0
  for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
    if (part === '' || part === '.') continue
    if (part === '..') {
      if (at.parent === null) return true
      at = at.parent
      continue
    }
    const next = at.children.get(part)
    // Missing, or a file: the kernel stops here too.
    if (next === undefined || next.kind === 'file') return false
    if (next.kind === 'directory') at = next
    else if (++followed > mostLinks) return false
    else rest.push(...next.target.split('/').toReversed())
  }
  return false
}

const largestTargetBytes = 4095

interface EntryPath {
  /** Empty for the root itself. */
  readonly parts: readonly string[]
  readonly hasTrailingSlash: boolean
}

export function parseEntryPath(path: string, limits: Pick<UnpackLimits, 'pathBytes' | 'nameBytes' | 'depth'>): EntryPath {
  if (path.startsWith('/')) throw refusal('path_absolute', `${quote(path)} is an absolute path`)
  if (path === '') throw refusal('path_form', 'an entry has no name')
  if (path.includes('\0')) throw refusal('path_encoding', `${quote(path)} contains a NUL`)
  if (Buffer.byteLength(path) > limits.pathBytes) throw refusal('path_length', `${quote(path)} is longer than ${limits.pathBytes} bytes`)
  const hasTrailingSlash = path.endsWith('/')
  const all = (hasTrailingSlash ? path.slice(0, -1) : path).split('/')
  const parts = all[0] === '.' ? all.slice(1) : all
  for (const part of parts) {
    if (part === '..') throw refusal('path_parent', `${quote(path)} leads out of its directory`)
    if (part === '' || part === '.') throw refusal('path_form', `${quote(path)} is not a plain path`)
    if (Buffer.byteLength(part) > limits.nameBytes) throw refusal('path_length', `${quote(part)} is longer than ${limits.nameBytes} bytes`)
  }
  if (parts.length > limits.depth) throw refusal('path_depth', `${quote(path)} is deeper than ${limits.depth} directories`)
  return { parts, hasTrailingSlash }
}

/** Checks the text alone; `checkLinks` follows links through other links once all layers are applied. */
export function checkLinkTarget(parts: readonly string[], target: string): void {
  const what = `the symbolic link ${quote(parts.join('/'))} to ${quote(target)}`
  if (target === '' || target.includes('\0') || Buffer.byteLength(target) > largestTargetBytes)
    throw refusal('symlink_escape', `${what} has no usable target`)
  if (target.startsWith('/')) throw refusal('symlink_escape', `${what} is absolute`)
  let depth = parts.length - 1
  for (const part of target.split('/')) {
    if (part === '..') depth--
    else if (part !== '' && part !== '.') depth++
    if (depth < 0) throw refusal('symlink_escape', `${what} leads out of the tree`)
  }
}

export type Whiteout = { readonly hides: 'one'; readonly name: string } | { readonly hides: 'all' }

/** Null for an ordinary name. */
export function parseWhiteout(name: string): Whiteout | null {
  if (!name.startsWith('.wh.')) return null
  if (name === '.wh..wh..opq') return { hides: 'all' }
  const hidden = name.slice('.wh.'.length)
  if (hidden === '' || hidden === '.' || hidden === '..' || hidden.startsWith('.wh.'))
    throw refusal('whiteout', `${quote(name)} is not a valid whiteout`)
  return { hides: 'one', name: hidden }
}
