// Every check is shown something wrong, and has to say so: a tool that looks at nothing reports success too.
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { directions } from '../../scripts/lint/directions.ts'
import { createProcesses, makeTempDir } from '@muster/testkit'
import type { TempDir } from '@muster/testkit'
import { clean, violations } from './planted-code.ts'

const root = join(import.meta.dirname, '..', '..')
const processes = createProcesses()
let copy: TempDir

interface Diagnostic {
  readonly code: string
  readonly message: string
  readonly help?: string
  readonly filename: string
}

const plant = (path: string, code: string): void => {
  const file = join(copy.path, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, code)
}

const run = async (program: string, ...args: string[]): Promise<{ code: number | null; output: string; stdout: string }> => {
  const child = await processes.start(program, { args, cwd: copy.path })
  const { code } = await child.exited
  return { code, output: child.output(), stdout: child.stdout() }
}

beforeAll(async () => {
  copy = await makeTempDir('lint')
  for (const file of ['.oxlintrc.json', '.oxfmtrc.json', 'knip.json', 'tsconfig.json', 'package.json', 'scripts/lint']) {
    cpSync(join(root, file), join(copy.path, file), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(copy.path, 'node_modules'))
})
afterAll(async () => {
  await processes.stopAll()
  await copy.remove()
})

describe('oxlint', () => {
  let found: readonly Diagnostic[] = []

  beforeAll(async () => {
    for (const { path, code } of violations) plant(path, code)
    for (const [path, code] of clean) plant(path, code)
    const { code, stdout } = await run('oxlint', '-f', 'json', 'packages', 'scripts')
    expect(code).toBe(1)
    const report: { diagnostics: Diagnostic[] } = JSON.parse(stdout)
    found = report.diagnostics
  })

  const saidAbout = (path: string): string[] =>
    found.filter(({ filename }) => filename === path).map(({ code, message, help }) => `${code}: ${message} ${help}`)

  it.each(violations)('$rule in $path reports "$says"', ({ path, rule, says }) => {
    expect(saidAbout(path)).toSatisfy((said: string[]) => said.some((line) => line.startsWith(`${rule}: `) && line.includes(says)))
  })

  it.each(clean)('reports nothing about %s', (path) => {
    expect(saidAbout(path)).toEqual([])
  })

  it.each(directions.map(({ because }) => because))('is shown a violation of the direction "%s"', (because) => {
    expect(found.some(({ message }) => message.includes(because))).toBe(true)
  })

  it('is shown a violation of each rule it is given by name', () => {
    const config = readFileSync(join(root, '.oxlintrc.json'), 'utf8')
    const rules = [...config.matchAll(/^ +"(?:([a-z]+)\/)?([a-z-]+)": (?:\[\s*)?"error"/gm)].map(
      ([, plugin = 'eslint', rule]) => `${plugin}(${rule})`,
    )
    const planted = new Set(violations.map(({ rule }) => rule))
    expect(rules.length).toBeGreaterThan(20)
    expect(rules.filter((rule) => !planted.has(rule))).toEqual([])
  })
})

it('tsc refuses syntax that Node cannot strip, and types that do not fit', async () => {
  plant('packages/host/src/enum.ts', 'export enum State {\n  On,\n}\nexport const count: number = "one"\n')
  plant('tsconfig.one.json', '{ "extends": "./tsconfig.json", "include": ["packages/host/src/enum.ts"] }')
  const { code, output } = await run('tsc', '-p', 'tsconfig.one.json')
  expect(code).not.toBe(0)
  expect(output).toMatch(/erasableSyntaxOnly/)
  expect(output).toMatch(/'string' is not assignable to type 'number'/)
})

it('oxfmt refuses code that is not formatted', async () => {
  plant('formatted/bad.ts', 'export const x = "double";\n')
  plant('formatted/good.ts', "export const x = 'single'\n")
  const { code, output } = await run('oxfmt', '--check', 'formatted')
  expect(code).toBe(1)
  expect(output).toContain('formatted/bad.ts')
  expect(output).not.toContain('formatted/good.ts')
})

it('knip finds an unused export, an unused file and an unused dependency', async () => {
  plant('packages/one/package.json', '{ "name": "@muster/one", "exports": { ".": "./src/index.ts" }, "dependencies": { "pino": "*" } }')
  plant('packages/one/src/index.ts', "export { used } from './part.ts'\n")
  plant('packages/one/src/part.ts', 'export const used = 1\nexport const unused = 2\n')
  plant('packages/one/src/forgotten.ts', 'export const forgotten = 1\n')
  const { code, stdout } = await run('knip', '--workspace', 'packages/one', '--reporter', 'json')
  expect(code).toBe(1)
  expect(stdout).toMatch(/"unused"/)
  expect(stdout).toMatch(/forgotten\.ts/)
  expect(stdout).toMatch(/"pino"/)
  expect(stdout).not.toMatch(/"used"/)
})

it('list-behaviours finds a test that is gone without a reason, and a test that is not in its list', async () => {
  for (const file of ['list-behaviours.ts', 'environment.ts']) cpSync(join(root, 'scripts', file), join(copy.path, 'scripts', file))
  const [known, gone, added] = ['C14', 'C15', 'C16']
  plant('tests/behaviours/planted.test.ts', `it('${known} is kept', () => {})\nit('${added} is new', () => {})\n`)
  plant('tests/repository/proven-behaviours.txt', `${known} | is kept\n${gone} | is gone\n`)
  const before = await run('node', 'scripts/list-behaviours.ts', '--check')
  expect(before.code).toBe(1)
  expect(before.stdout).toContain(`"${gone} | is gone": no test has this name any more`)
  expect(before.stdout).toContain(`"${added} | is new": missing in`)
  expect(before.stdout).not.toContain('is kept')
  const written = await run('node', 'scripts/list-behaviours.ts', '--write')
  expect({ code: written.code, lines: written.stdout.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
  expect(await run('node', 'scripts/list-behaviours.ts', '--write', '--because', 'planted')).toMatchObject({ code: 0, stdout: '' })
  expect(readFileSync(join(copy.path, 'tests/repository/removed-behaviours.txt'), 'utf8')).toContain(`${gone} | is gone | planted\n`)
  expect(await run('node', 'scripts/list-behaviours.ts', '--check')).toMatchObject({ code: 0 })
})

it('the check of mutants finds a patch that does not apply, one without tests, and one whose tests are gone', async () => {
  for (const file of ['mutants/patch.ts', 'environment.ts']) cpSync(join(root, 'scripts', file), join(copy.path, 'scripts', file))
  plant('mutants/code.ts', 'export const one = 1\n')
  plant('mutants/code.test.ts', "it('is one', () => {})\n")
  const patch = (header: string, before = 'export const one = 1'): string =>
    `Mutant: one is two.\n${header}\n\ndiff --git a/mutants/code.ts b/mutants/code.ts\n--- a/mutants/code.ts\n+++ b/mutants/code.ts\n@@ -1 +1 @@\n-${before}\n+export const one = 2\n`
  plant('scripts/mutants/good.patch', patch('Killed-by: mutants/code.test.ts'))
  expect(await run('node', 'scripts/mutants/patch.ts')).toMatchObject({ code: 0, stdout: '' })
  plant('scripts/mutants/moved.patch', patch('Killed-by: mutants/code.test.ts', 'export const one = 0'))
  plant('scripts/mutants/unnamed.patch', patch(''))
  plant('scripts/mutants/untested.patch', patch('Killed-by: mutants/gone.test.ts'))
  const { code, stdout } = await run('node', 'scripts/mutants/patch.ts')
  expect(code).toBe(1)
  expect(stdout.trim().split('\n')).toEqual([
    expect.stringMatching(/moved\.patch: does not apply: .*mutants\/code\.ts/),
    expect.stringMatching(/unnamed\.patch: needs a line "Killed-by: TEST-FILE"/),
    expect.stringMatching(/untested\.patch: no test file mutants\/gone\.test\.ts/),
  ])
})

it('check-files finds litter, traces of a machine and a lock file that cannot be installed', async () => {
  for (const file of ['check-files.ts', 'environment.ts']) cpSync(join(root, 'scripts', file), join(copy.path, 'scripts', file))
  plant('empty.txt', '')
  plant('home.md', `see ${join('/', 'home', 'alice', 'notes')}`)
  plant('clone.md', `see ${copy.path}/notes`)
  plant('packages/two/package.json', '{ "dependencies": { "pino": "1.0.0" } }')
  const address = { 'node_modules/a': { resolved: 'https://registry.example/a.tgz', optionalDependencies: { 'a-linux': '1' } } }
  plant('package-lock.json', JSON.stringify({ packages: { ...address, 'packages/two': { dependencies: { pino: '2.0.0' } } } }))
  const { code, stdout } = await run('node', 'scripts/check-files.ts')
  expect(code).toBe(1)
  for (const problem of [
    'empty.txt: is empty',
    "home.md: names somebody's home directory",
    'clone.md: names the directory of this clone',
    'packages/two/package.json: asks for other packages than package-lock.json has',
    'package-lock.json: node_modules/a names a download address',
    'package-lock.json: a-linux, for node_modules/a, is missing',
  ]) {
    expect(stdout).toContain(problem)
  }
})
