// An oxlint plugin with one rule: imports follow directions.ts. The built-in no-restricted-imports cannot express this: a
// later override replaces an earlier one, exceptions of one pattern undo the next, and `import('pg').Pool` as a
// type goes unseen.
import { dirname, join, matchesGlob, relative, sep } from 'node:path'
import { directions, tests } from './directions.ts'
import type { Direction } from './directions.ts'

const throughTheIndex = 'packages import each other by name, through the one index.ts that says what is public'
const mayLookInside = ['packages/testkit/**', 'tests/**', 'scripts/**', 'bench/**']
const root = join(import.meta.dirname, '..', '..')

interface ImportNode {
  readonly type: string
  readonly source: { readonly value?: unknown } | null
  readonly importKind?: string
  readonly exportKind?: string
}

interface Context {
  readonly filename: string
  report(problem: { readonly message: string; readonly node: unknown }): void
}

const matchesAny = (path: string, globs: readonly string[]): boolean => globs.some((glob) => matchesGlob(path, glob))

/** `file` is a path from the root. A static import is one that loads what it names before the file runs. */
export interface Import {
  readonly file: string
  readonly specifier: string
  readonly isStatic: boolean
}

/** Why this may not be imported; null if it may. */
export function findObjection({ file, specifier, isStatic }: Import): string | null {
  const isRelative = specifier.startsWith('.')
  const target = isRelative ? join(dirname(file), specifier).split(sep).join('/') : specifier
  const leaves = packageOf(target) !== packageOf(file)
  const isTest = matchesAny(file, tests)
  const reachesInside = isRelative ? leaves && packageOf(target) !== null : matchesGlob(target, '@muster/*/**')
  if (reachesInside && !matchesAny(file, mayLookInside) && !(isTest && packageOf(target) === 'packages/testkit')) return throughTheIndex
  if (isTest) return null
  const applies = ({ from, except = [], kind }: Direction): boolean =>
    matchesAny(file, from) && !matchesAny(file, except) && (kind === undefined || isStatic)
  const forbids = ({ never = [], only }: Direction): boolean =>
    matchesAny(target, never) || (only !== undefined && leaves && !matchesAny(target, only))
  return directions.find((direction) => applies(direction) && forbids(direction))?.because ?? null
}

function packageOf(file: string): string | null {
  return /^packages\/[^/]+/.exec(file)?.[0] ?? null
}

function check(context: Context, node: ImportNode): void {
  const specifier = node.source?.value
  if (typeof specifier !== 'string') return
  const file = relative(root, context.filename).split(sep).join('/')
  const isType = node.type === 'TSImportType' || node.importKind === 'type' || node.exportKind === 'type'
  const because = findObjection({ file, specifier, isStatic: !isType && node.type !== 'ImportExpression' })
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
