// Follows every symbolic link of the finished tree the way the kernel would, through other links, and refuses one that
// leaves the root on its way. The text of a link alone does not say: behind `a/b -> ../..` a `..` means another directory.
import { quote, refusal } from '../refusal.ts'
import { walkNodes, type DirectoryNode } from './tree-node.ts'

/** As in the kernel; a longer chain or a loop can't be followed by anybody. */
const mostLinks = 40

export function checkLinks(root: DirectoryNode): void {
  for (const { path, node, parent } of walkNodes(root)) {
    if (node.kind === 'link' && leavesRoot(parent, node.target))
      throw refusal('symlink_escape', `the symbolic link ${quote(path)} to ${quote(node.target)} leads out of the tree through other links`)
  }
}

function leavesRoot(from: DirectoryNode, target: string): boolean {
  const waiting = target.split('/').toReversed()
  let at = from
  let followed = 0
  for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
    if (part === '' || part === '.') continue
    if (part === '..') {
      if (at.parent === null) return true
      at = at.parent
      continue
    }
    const next = at.children.get(part)
    // Nothing there, or a file: the kernel gives up here.
    if (next === undefined || next.kind === 'file') return false
    if (next.kind === 'directory') at = next
    else if (++followed > mostLinks) return false
    else waiting.push(...next.target.split('/').toReversed())
  }
  return false
}
