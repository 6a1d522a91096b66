// The merged tree as it is in memory: what every directory has, from which layer, and what was written for it.

export interface DirectoryNode {
  readonly kind: 'directory'
  readonly parent: DirectoryNode | null
  readonly children: Map<string, TreeNode>
  /** The last one that named it or put something into it. */
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

/** Parents first, names in the order of their characters: the same tree gives the same list. */
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

/** Names that a file system which ignores case or composition would take for one. */
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
