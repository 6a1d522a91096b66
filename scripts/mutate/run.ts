// Changes the code by machine, one change at a time, and counts the changes that no test notices (Stryker).
//   npm run mutate                           every part of parts.ts, for hours
//   npm run mutate -- controller-pure        one part
//   npm run mutate -- controller-pure loads  only its files whose path contains "loads"
// Prints a score per folder and every survivor. A part below its aim fails the run. It works on a copy of the tree.
import { chmodSync, globSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { removeDirectory, root } from '../environment.ts'
import { copyTree } from '../copy-tree.ts'
import { findPart, parts, type Part } from './parts.ts'
import { formatScores, formatSurvivors, scoreOf, type Change } from './score.ts'

async function mutatePart(part: Part, filter: string | undefined): Promise<readonly Change[]> {
  const files = globSync([...part.files]).filter((file) => !/\.(test|suite)\.tsx?$/.test(file) && file.includes(filter ?? ''))
  if (files.length === 0) throw new Error(`no file of ${part.name} contains "${filter ?? ''}" in its path`)
  process.env['MUTATE_PART'] = part.name
  const { Stryker } = await import('@stryker-mutator/core')
  const results = await new Stryker({
    testRunner: 'vitest',
    vitest: { configFile: 'scripts/mutate/vitest.config.ts' },
    mutate: files,
    inPlace: true,
    concurrency: 2,
    coverageAnalysis: 'perTest',
    disableTypeChecks: false,
    reporters: [],
    checkers: [],
    configFile: 'scripts/mutate/stryker.json',
  }).runMutationTest()
  return results.map(({ fileName, location, status, mutatorName, replacement }) => ({
    ...{ file: relative(process.cwd(), fileName), line: location.start.line, status, kind: mutatorName },
    replacement: replacement ?? '',
  }))
}

async function main([name, filter]: readonly string[]): Promise<boolean> {
  const chosen = name === undefined ? parts : [findPart(name)]
  mkdirSync(join(root, '.cache'), { recursive: true })
  const tree = mkdtempSync(join(root, '.cache', 'mutate-'))
  chmodSync(tree, 0o711) // PostgreSQL runs as another user.
  process.on('exit', () => removeDirectory(tree))
  copyTree(tree)
  process.chdir(tree)
  writeFileSync(join(tree, 'scripts/mutate/stryker.json'), '{}')
  let isGood = true
  for (const part of chosen) {
    const changes = await mutatePart(part, filter)
    console.log(`\n${formatSurvivors(changes)}\n\n${formatScores(changes, dirname)}`)
    const score = scoreOf(changes)
    console.log(`${part.name}: ${score.toFixed(1)} % of ${changes.length} changes noticed (aim ${part.aim} %)`)
    isGood &&= score >= part.aim
  }
  return isGood
}

process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1
