// An oxlint plugin with one rule: imports follow directions.ts. The built-in no-restricted-imports can't say this: a
// later override replaces an earlier one, exceptions of one pattern undo the next, and `import('pg').Pool` as a
// type goes unseen.
import { dirname, join, matchesGlob, relative, sep } from 'node:path'
import { directions, tests } from './directions.ts'
import type { Direction } from './directions.ts'

const throughTheIndex = 'packages import each other by name, through the one index.ts that says what is public'
const mayLookInside = ['packages/testkit/**', 'scripts/**', 'bench/**']
const root = join(import.meta.dirname, '..', '..')

interface Literal {
  readonly type: string
  readonly value?: unknown
}

interface ImportNode {
  readonly source: Literal | null
}

interface Context {
  readonly filename: string
  report(problem: { readonly message: string; readonly node: unknown }): void
}

const matchesAny = (path: string, globs: readonly string[]): boolean => globs.some((glob) => matchesGlob(path, glob))

/** Why this file may not import that; null if it may. Both are paths from the root, or the name of a package. */
export function findObjection(file: string, specifier: string): string | null {
  const isRelative = specifier.startsWith('.')
  const target = isRelative ? join(dirname(file), specifier).split(sep).join('/') : specifier
  const leaves = packageOf(target) !== packageOf(file)
  const reachesInside = isRelative ? leaves && packageOf(target) !== null : matchesGlob(target, '@muster/*/**')
  if (reachesInside && !matchesAny(file, mayLookInside)) return throughTheIndex
  if (matchesAny(file, tests)) return null
  const applying = directions.filter(({ from, except = [] }) => matchesAny(file, from) && !matchesAny(file, except))
  const isForbidden = ({ never = [], only }: Direction): boolean =>
    matchesAny(target, never) || (only !== undefined && leaves && !matchesAny(target, only))
  return applying.find(isForbidden)?.because ?? null
}

function packageOf(file: string): string | null {
  return /^packages\/[^/]+/.exec(file)?.[0] ?? null
}

function check(context: Context, node: ImportNode): void {
  const specifier = node.source?.value
  if (typeof specifier !== 'string') return
  const because = findObjection(relative(root, context.filename).split(sep).join('/'), specifier)
  if (because === null) return
  context.report({ message: `${specifier} may not be imported here: ${because} (scripts/lint/directions.ts).`, node: node.source })
}

const importDirection = {
  create(context: Context) {
    const visit = (node: ImportNode): void => check(context, node)
    return {
      ImportDeclaration: visit,
      ImportExpression: visit,
      ExportAllDeclaration: visit,
      ExportNamedDeclaration: visit,
      TSImportType: visit,
    }
  },
}

export default { meta: { name: 'muster' }, rules: { 'import-direction': importDirection } }
