// Copies the tree for tools that change sources: planted bugs, mutations.
import { execFileSync } from 'node:child_process'
import { cpSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './environment.ts'

/**
 * Copies all files that git knows or would add. Packages are hard links, not a link to node_modules: the packages of this
 * repository are relative links in there, and must lead to the copy.
 */
export function copyTree(tree: string): void {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
  for (const file of files.split('\0')) {
    if (file === '' || lstatSync(join(root, file), { throwIfNoEntry: false }) === undefined) continue
    mkdirSync(dirname(join(tree, file)), { recursive: true })
    cpSync(join(root, file), join(tree, file), { verbatimSymlinks: true })
  }
  execFileSync('cp', ['-al', join(root, 'node_modules'), join(tree, 'node_modules')])
  // Caches are written in place, and a hard link would share that with the original.
  for (const cache of ['.vite', '.vite-temp', '.vitest', '.cache'])
    rmSync(join(tree, 'node_modules', cache), { recursive: true, force: true })
}
