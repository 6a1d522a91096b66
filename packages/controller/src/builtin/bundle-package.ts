// A package and all that it imports → one file, and whose code is in it. A process that imports one file starts several
// times as fast as one that looks for hundreds.
import { readFile, realpath } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join, sep } from 'node:path'
import type { Assemblable } from './assembly.ts'

export interface Bundle {
  readonly code: string
  /** Directories of the packages whose code is in it. */
  readonly packages: readonly string[]
}

const empty = '\0empty.cjs'

export async function bundlePackage({ directory, root, assembly }: Assemblable): Promise<Bundle> {
  // Modules go by where they really are; packages may be linked.
  const own = await realpath(join(root, 'node_modules', assembly.bundle))
  const replaced = new Map(Object.entries(assembly.replace).map(([module, by]) => [join(own, module), join(directory, by)]))
  const unused = new Set(assembly.without)
  // Loaded when it is needed: most starts find everything done.
  const { rolldown } = await import('rolldown')
  await using bundle = await rolldown({
    cwd: root,
    input: await mainOf(own),
    platform: 'node',
    external: [...assembly.external],
    logLevel: 'silent',
    plugins: [
      {
        name: 'assembly',
        resolveId: (id) => (unused.has(id) ? empty : null),
        async load(id) {
          if (id === empty) return 'module.exports = {}'
          const by = replaced.get(id)
          return by === undefined ? null : await readFile(by, 'utf8')
        },
      },
    ],
  })
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false, comments: false })
  const [chunk] = output
  // What is not found is left as an import, which would be found out on a node.
  const lost = [...chunk.imports, ...chunk.dynamicImports].filter((id) => !isBuiltin(id) && !assembly.external.includes(id))
  if (lost.length > 0) throw new Error(`${assembly.bundle} imports what is not installed: ${lost.join(', ')}`)
  return { code: chunk.code, packages: packagesOf(chunk.moduleIds) }
}

async function mainOf(directory: string): Promise<string> {
  const { main } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as { main?: string }
  return join(directory, main ?? 'index.js')
}

function packagesOf(modules: readonly string[]): string[] {
  const found = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id.replaceAll(sep, '/'))?.[0] ?? [])
  return [...new Set(found)].toSorted()
}
