// The merged tree in memory: the entries of each directory, the layer that each came from, and the checks of the finished
// tree.
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
