// Holds the mechanical part of the language rules (CONTRIBUTING.md): openings of comments, log lines, errors and commits;
// banned words, also in names of tests; banned identifiers; spelling. `findWordProblems` is pure, so that each rule has a planted violation in a test.
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
const lowerOpening = /^(?:what|who|whoever|whatever|whether|those|one that|of)\b/
type WordRule = readonly [rule: string, pattern: RegExp]
const riddles: readonly WordRule[] = [
  ['no riddles', /\bwhoever\b|\bby itself\b|\bas it is\b|\bwhat is so\b|\bof ours\b/i],
  ['cannot in one word', /\bcan not\b/i],
]
const bannedWords: readonly WordRule[] = [
  ['intent, not wish', /\bwish(?:es|ed|ing|er)?\b/i],
  ...riddles,
  [
    'American spelling',
    /\b(?:authoris|artefact|licence|initialis|summaris|recognis|serialis|normalis|organis|synchronis|categoris|optimis(?:e|ing|ation)|prioritis|minimis|maximis|utilis|penalis|finalis|analys(?:e|ing)|defence|colour|favour|honour|neighbour)\w*/i,
  ],
]
/** Only for texts that a program prints. */
const bannedInMessages: readonly WordRule[] = [...bannedWords, ["cannot, not can't", /\bcan['’]t\b/i]]
const bannedTypes =
  /\b(?:type|interface|class)\s+(?:Asked|Told|Known|Waiting|Said|Heard|Seen|Taken|Given|Wished|Begun|Wanted|Shown|Gone|Held|Left|Started|Found|Happened|Observed|Looked|Touched|Remembered|Concerned|Judged|Planned|Following|Listening|Registering|Why)\b(?!\s*[,}])/
const bannedIdentifiers =
  /\b(?:\w*[a-z])?(?:Wish|wish)(?:[A-Z]\w*|es\w*|ed\w*)?\b|\b(?:tellTo|NodeDoor|openDoor|createShowing|becomeSure|cancel_asked|cancelAsked)\b/
const quotedText = String.raw`(['"\`])((?:\\.|(?!\1).)*)\1`
const commentLine = /^\s*(?:\/\/|\/?\*)/
const quotedName = new RegExp(quotedText, 'g')
const logCall = new RegExp(String.raw`\blog\.(?:debug|info|warn|error)\(\s*${quotedText}`, 'g')
const errorText = new RegExp(String.raw`\b(?:new \w*Error\(|usageError\(|invalid\(|message: |what: )\s*${quotedText}`, 'g')
/** Texts between tags of a web page. Code between them has brackets, braces or operators, and is left out. */
const pageText = />\s*([^<>{}=;()]*[a-z]{2} [^<>{}=;()]*)\s*<\//g

/** `isPage`: a source with texts of a web page. `isTest`: a source with names of tests. */
type SourceKind = Readonly<{ isPage?: boolean; isTest?: boolean }>

/** Finds what breaks a rule in one TypeScript source. */
export function findWordProblems(source: string, { isPage = false, isTest = false }: SourceKind = {}): WordProblem[] {
  const lines = source.split('\n')
  return [
    ...lines.flatMap((line, index) => findLineRules(lines, index).map((rule) => ({ rule, line: index + 1, text: line.trim() }))),
    ...(isTest ? findNameProblems(lines) : []),
    ...findTextRules(source, isPage).map(({ rule, at, found }) => ({ rule, line: source.slice(0, at).split('\n').length, text: found })),
  ]
}

function findLineRules(lines: readonly string[], index: number): string[] {
  const line = lines[index] ?? ''
  const comment = readComment(line)
  return [
    ...(bannedTypes.test(line) ? ['types are nouns'] : []),
    ...(comment === null && bannedIdentifiers.test(line) ? ['banned identifier'] : []),
    ...(comment !== null && startsSentence(lines, index) && opening.test(comment) ? ['name the subject'] : []),
    ...(comment === null ? [] : brokenRules(bannedWords, comment)),
  ]
}

/** Names of tests: of `describe` and `it`, and of the rows of `it.each`, so every quoted text of a test counts. */
function findNameProblems(lines: readonly string[]): WordProblem[] {
  return lines.flatMap((line, index) =>
    commentLine.test(line)
      ? []
      : [...line.matchAll(quotedName)].flatMap(({ 2: words = '' }) =>
          brokenRules(riddles, words).map((rule) => ({ rule: `test names: ${rule}`, line: index + 1, text: words })),
        ),
  )
}

/** Log lines, errors and, of a web page, its texts; a call may span lines. */
function findTextRules(source: string, isPage: boolean): { rule: string; at: number; found: string }[] {
  const starts = (words: string): boolean => opening.test(words) || lowerOpening.test(words)
  const logs = [...source.matchAll(logCall)].map(({ index, 1: quote, 2: words = '' }) => ({
    at: index,
    found: words,
    rules: [
      ...(quote === '`' && words.includes('${') ? ['log messages are constant'] : []),
      ...(starts(words) || words.endsWith('.') ? ['log lines are noun verb'] : []),
    ],
  }))
  const errors = [...source.matchAll(errorText)].map(({ index, 2: words = '' }) => ({
    at: index,
    found: words,
    rules: starts(words) ? ['errors name what failed'] : [],
  }))
  const pages = isPage ? [...source.matchAll(pageText)].map(({ index, 1: words = '' }) => ({ at: index, found: words, rules: [] })) : []
  return [...logs, ...errors, ...pages].flatMap(({ at, found, rules }) =>
    [...rules, ...brokenRules(bannedInMessages, found)].map((rule) => ({ rule, at, found: found.trim() })),
  )
}

const brokenRules = (rules: readonly WordRule[], words: string): string[] =>
  rules.flatMap(([rule, pattern]) => (pattern.test(words) ? [rule] : []))

/** Finds what breaks a rule in one page of documentation. Code is left out. */
export function findPageProblems(page: string): WordProblem[] {
  const prose = page.replaceAll(/```[\s\S]*?```/g, (block) => block.replaceAll(/[^\n]/g, ' ')).replaceAll(/`[^`\n]*`/g, ' ')
  return prose.split('\n').flatMap((line, index) => {
    const starts = line.replace(/^[\s>#*|\d.-]+/, '')
    const found = brokenRules(bannedWords, line)
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
  if (opening.test(rest) || lowerOpening.test(rest)) return 'name the subject'
  return brokenRules(bannedWords, rest)[0] ?? null
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
    path.includes('node_modules') || path === 'scripts/check-words.ts' || path === 'scripts/check-words.test.ts'
  const show = (path: string, found: readonly WordProblem[]): string[] =>
    found.map(({ rule, line, text }) => `${path}:${line}: ${rule}: ${text}`)
  const isTest = (path: string): boolean => /^tests\/|\.(?:test|suite)\.tsx?$|^packages\/[^/]+\/test\//.test(path)
  const read = (path: string): string => readFileSync(join(root, path), 'utf8')
  const code = globSync(sources, { cwd: root }).filter((path) => !skipped(path))
  const pages = globSync(['*.md', 'docs/*.md', 'docs/adr/*.md', 'packages/**/design.md', 'bench/*.md', 'backends/*.md'], {
    cwd: root,
  }).filter((path) => !skipped(path))
  return [
    ...code.flatMap((path) => show(path, findWordProblems(read(path), { isPage: path.endsWith('.tsx'), isTest: isTest(path) }))),
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
