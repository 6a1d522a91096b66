// Holds the mechanical part of the language rules (CONTRIBUTING.md): openings of comments, log lines, errors and commits;
// banned words; banned identifiers; spelling. `findWordProblems` is pure, so that each rule has a planted violation in a test.
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './environment.ts'

export interface WordProblem {
  readonly rule: string
  readonly line: number
  readonly text: string
}

/** Commits after this one follow the rules. */
const firstCheckedCommit = '79dcbc8'

const opening = /^(?:What|Who|Whoever|Whatever|Whether|Those|One that|Of)\b/
const bannedWords: readonly (readonly [rule: string, pattern: RegExp])[] = [
  ['intent, not wish', /\bwish(?:es|ed|ing|er)?\b/i],
  ['no riddles', /\bwhoever\b|\bby itself\b|\bas it is\b|\bwhat is so\b|\bof ours\b/i],
  ['cannot in one word', /\bcan not\b/i],
  ['American spelling', /\b(?:authoris|artefact|licence|initialis|summaris|recognis|serialis|normalis|organis|synchronis|categoris)\w*/i],
]
const bannedTypes =
  /\b(?:type|interface|class)\s+(Asked|Told|Known|Waiting|Said|Heard|Seen|Taken|Given|Wished|Begun|Wanted|Shown|Gone|Held|Left)\b/
const bannedIdentifiers =
  /\b(?:\w*[a-z])?(?:Wish|wish)(?:[A-Z]\w*|es\w*|ed\w*)?\b|\b(?:tellTo|NodeDoor|openDoor|createShowing|becomeSure)\b/
const logCall = /\blog\.(?:debug|info|warn|error)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g
const errorText = /\b(?:new \w*Error\(|message: )\s*(['"`])((?:\\.|(?!\1).)*)\1/g

/** Finds what breaks a rule in one TypeScript source. */
export function findWordProblems(source: string): WordProblem[] {
  const problems: WordProblem[] = []
  const report = (rule: string, line: number, text: string): void => void problems.push({ rule, line: line + 1, text: text.trim() })
  const lines = source.split('\n')
  for (const [index, line] of lines.entries()) {
    const comment = readComment(line)
    if (comment !== null && startsSentence(lines, index) && opening.test(comment)) report('name the subject', index, line)
    for (const [rule, pattern] of bannedWords) if (comment !== null && pattern.test(comment)) report(rule, index, line)
    if (bannedTypes.test(line)) report('types are nouns', index, line)
    if (comment === null && bannedIdentifiers.test(line)) report('banned identifier', index, line)
    for (const [, quote, text = ''] of line.matchAll(logCall)) {
      if (quote === '`' && text.includes('${')) report('log messages are constant', index, line)
      if (opening.test(text) || text.endsWith('.') || /^(?:what|who|whoever|whether|those|of)\b/.test(text))
        report('log lines are noun verb', index, line)
      for (const [rule, pattern] of bannedWords) if (pattern.test(text)) report(rule, index, line)
    }
    for (const [, , text = ''] of line.matchAll(errorText)) {
      if (opening.test(text) || /^(?:what|who|whoever|whether|those|of)\b/.test(text)) report('errors name what failed', index, line)
      for (const [rule, pattern] of bannedWords) if (pattern.test(text)) report(rule, index, line)
    }
  }
  return problems
}

/** Finds what breaks a rule in one page of documentation. */
export function findPageProblems(page: string): WordProblem[] {
  const prose = page.replaceAll(/```[\s\S]*?```/g, (block) => block.replaceAll(/[^\n]/g, ' ')).replaceAll(/`[^`\n]*`/g, ' ')
  return prose.split('\n').flatMap((line, index) => {
    const starts = line.replace(/^[\s>#*|\d.-]+/, '')
    const found = bannedWords.flatMap(([rule, pattern]) => (pattern.test(line) ? [rule] : []))
    const begins = opening.test(starts) || /[.!?]\s+(?:What|Who|Whoever|Whether|Those|One that|Of)\b/.test(line)
    const isQuestion = line.includes('?')
    return [...found, ...(begins && !isQuestion ? ['name the subject'] : [])].map((rule) => ({ rule, line: index + 1, text: line.trim() }))
  })
}

/** Null for a subject that follows the rules. */
export function findSubjectProblem(subject: string): string | null {
  if (subject.startsWith('Merge ')) return null
  const [, area, rest = ''] = /^([a-z0-9, ./-]+): (.+)$/.exec(subject) ?? []
  if (area === undefined) return 'subjects read "area: what is now true"'
  if (opening.test(rest) || /^(?:what|who|whoever|whether|those|of)\b/.test(rest)) return 'name the subject'
  return bannedWords.find(([, pattern]) => pattern.test(rest))?.[0] ?? null
}

function readComment(line: string): string | null {
  const [, text] = /^\s*(?:\/\/+|\/\*\*?|\*)\s?(.*?)(?:\*\/)?$/.exec(line) ?? /(?:^|\s)\/\/ (.*)$/.exec(line) ?? []
  return text?.trim() ?? null
}

/** A comment line starts a sentence when no comment stands before it, or when that one ended. */
function startsSentence(lines: readonly string[], index: number): boolean {
  const before = readComment(lines[index - 1] ?? '')
  return before === null || before === '' || /[.:!?]$/.test(before)
}

function checkTree(): string[] {
  const sources = ['packages/*/{src,test}/**/*.{ts,tsx}', 'tests/**/*.ts', 'scripts/**/*.ts', 'bench/**/*.ts', 'backends/*/*.mjs']
  const skipped = (path: string): boolean =>
    path.includes('node_modules') || path.endsWith('check-words.ts') || path.includes('words.test.ts')
  const show = (path: string, found: readonly WordProblem[]): string[] =>
    found.map(({ rule, line, text }) => `${path}:${line}: ${rule}: ${text}`)
  const read = (path: string): string => readFileSync(join(root, path), 'utf8')
  const code = globSync(sources, { cwd: root }).filter((path) => !skipped(path))
  const pages = globSync(['*.md', 'docs/*.md', 'packages/**/design.md', 'bench/*.md', 'backends/*.md'], { cwd: root }).filter(
    (path) => !skipped(path),
  )
  return [
    ...code.flatMap((path) => show(path, findWordProblems(read(path)))),
    ...pages.flatMap((path) => show(path, findPageProblems(read(path)))),
  ]
}

function checkCommits(): string[] {
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  let log: string
  try {
    log = git('log', '--format=%h %s', `${firstCheckedCommit}..HEAD`)
  } catch {
    return [] // A copy without history.
  }
  return log.split('\n').flatMap((line) => {
    const [, hash = '', subject = ''] = /^(\S+) (.*)$/.exec(line) ?? []
    const problem = subject === '' ? null : findSubjectProblem(subject)
    return problem === null ? [] : [`commit ${hash}: ${problem}: ${subject}`]
  })
}

if (import.meta.main) {
  const problems = [...checkTree(), ...checkCommits()]
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) console.error(`${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
