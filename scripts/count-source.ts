// Counts files and lines of the TypeScript that ships: `src` of packages and backends, without tests and testkit.
//   node scripts/count-source.ts [repository]
import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { root } from './environment.ts'

const directory = resolve(process.argv[2] ?? root)
const patterns = ['packages/*/src/**/*.{ts,tsx}', 'backends/*/src/**/*.{ts,tsx}']
const isCounted = (path: string): boolean => !path.startsWith('packages/testkit/') && !/\.test\.tsx?$/.test(path)

const counts = new Map<string, { files: number; lines: number }>()
for (const path of globSync(patterns, { cwd: directory }).filter(isCounted)) {
  const name = path.split('/').slice(0, 2).join('/')
  const { files, lines } = counts.get(name) ?? { files: 0, lines: 0 }
  const text = readFileSync(join(directory, path), 'utf8')
  counts.set(name, { files: files + 1, lines: lines + text.split('\n').length - 1 })
}
const rows = [...counts].toSorted(([a], [b]) => a.localeCompare(b))
const total = rows.reduce((sum, [, { files, lines }]) => ({ files: sum.files + files, lines: sum.lines + lines }), { files: 0, lines: 0 })
for (const [name, { files, lines }] of [...rows, ['total', total] as const])
  console.log(`${name.padEnd(22)}${String(files).padStart(6)} files${String(lines).padStart(8)} lines`)
