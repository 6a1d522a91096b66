// Every rule is shown one violation and one text beside it that breaks none: a check that reads nothing reports success too.
import { describe, expect, it } from 'vitest'
import { findPageProblems, findSubjectProblem, findWordProblems } from './check-words.ts'

const rulesIn = (source: string, options?: { isPage?: boolean; isTest?: boolean }): string[] =>
  findWordProblems(source, options).map(({ rule }) => rule)

describe('a source', () => {
  it.each([
    ['a comment', '// What the worker has.', 'name the subject'],
    ['a comment about a function', '/** Whether it runs. */', 'name the subject'],
    ['the second sentence of a comment', '// It is read once.\n// Those that failed are retried.', 'name the subject'],
    ['a comment behind code', 'const a = 1 // of ours', 'no riddles'],
    ['a banned word in a comment', '// Stores a wish.', 'intent, not wish'],
    ['two words for cannot', '// The bus can not connect.', 'cannot in one word'],
    ['British spelling', '// Authorises the caller.', 'American spelling'],
    ['another British spelling', '// The colour of the bar.', 'American spelling'],
    ['a type that is no noun', 'export interface Asked {', 'types are nouns'],
    ['a type named by a participle', 'type Judged = Member', 'types are nouns'],
    ['a type alias that is no noun', 'type Started = string', 'types are nouns'],
    ['a banned identifier', 'const rows = wishes.map(read)', 'banned identifier'],
    ['a banned name', 'await openDoor(port)', 'banned identifier'],
    ['a log line with a value', 'log.info(`lost ${count} messages`)', 'log messages are constant'],
    ['a log line that is a sentence', "log.warn('The intent settled.')", 'log lines are noun verb'],
    ['a log line without a subject', "log.warn('what was sent is lost')", 'log lines are noun verb'],
    ['a log line over two lines', "log.warn(\n  'whoever asked is told',\n)", 'log lines are noun verb'],
    ['a contraction in a log line', 'log.warn("can\'t connect to the bus")', "cannot, not can't"],
    ['an error without a subject', "throw new Error('what was sent is not JSON')", 'errors name what failed'],
    ['an error over two lines', "throw new CliError(\n  'whatever answers is no controller',\n)", 'errors name what failed'],
    ['a contraction in an error', "throw usageError(`can't read ${file}`)", "cannot, not can't"],
    ['two words for cannot in a refusal', "throw invalid('tools can not be combined')", 'cannot in one word'],
    ['a banned word in a failure', "const failure = { code: 'x', message: 'a newer wish is there' }", 'intent, not wish'],
  ])('%s is found', (_, source, rule) => expect(rulesIn(source)).toContain(rule))

  it.each([
    ['a comment with a subject', '// The worker reports its backends.\n// Nodes that failed are retried.'],
    ['a sentence that goes on in the next line', '// The reader returns the part of the text before\n// what follows the tag.'],
    ['a word that contains another one', '// Reads the artifact of a recognized license.'],
    ['the spelling of the API', '// An operation that is cancelled or cancelling.'],
    ['a noun as a type', 'export interface StatusQuery {\nexport type StartedOperations = string'],
    ['an import of a type', "import { type Found, read } from './other.ts'"],
    ['a log line', "log.info('intent settled', { id })\nlog.warn('cannot connect to the bus; retrying')"],
    ['an error', 'throw new Error(`cannot read ${file}: it is not JSON`)'],
    ['a contraction in a comment', "// A pipe can't be redrawn."],
  ])('%s is accepted', (_, source) => expect(rulesIn(source)).toEqual([]))

  it('names the line', () => expect(findWordProblems('const a = 1\n\n// Who asks.')).toMatchObject([{ line: 3, text: '// Who asks.' }]))
})

describe('a page of the web', () => {
  it.each([
    ['a banned word', '<p>The wish is open</p>', 'intent, not wish'],
    ['a contraction', "<p>\n  The node can't be reached.\n</p>", "cannot, not can't"],
    ['a riddle', '<td>It ends by itself</td>', 'no riddles'],
  ])('%s is found', (_, source, rule) => expect(rulesIn(source, { isPage: true })).toContain(rule))

  it.each([
    ['plain text', '<p>No nodes match these filters.</p>'],
    ['code between tags', "<p>{nodes.map((node) => node.can)}</p>\nconst a = b > c && d('x y') < /x/.length"],
  ])('%s is accepted', (_, source) => expect(rulesIn(source, { isPage: true })).toEqual([]))

  it('is not read in other sources', () => expect(rulesIn("<p>The node can't be reached.</p>")).toEqual([]))
})

describe('a test', () => {
  it.each([
    ['a riddle in a name', "it('tells whoever listens', () => {})", 'test names: no riddles'],
    ['a riddle in a group', "describe('what is so', () => {})", 'test names: no riddles'],
    ['a riddle behind a table', "])('G3 %s ends by itself', () => {})", 'test names: no riddles'],
    ['a riddle in a row of a table', "    ['a backend of ours', 1],", 'test names: no riddles'],
    ['a riddle in double quotes', 'it("shows a worker\'s answer as it is", () => {})', 'test names: no riddles'],
    ['two words for cannot', 'it(`W3 can not start`, () => {})', 'test names: cannot in one word'],
  ])('with %s is found', (_, source, rule) => expect(rulesIn(source, { isTest: true })).toContain(rule))

  it.each([
    ['a plain name', "it('S2.9 the operation cannot end before its nodes', () => {})"],
    ['an apostrophe in a comment', "// The worker's own word, and the node's."],
  ])('with %s is accepted', (_, source) => expect(rulesIn(source, { isTest: true })).toEqual([]))

  it('is not read in other sources', () => expect(rulesIn("const text = 'shown as it is'")).toEqual([]))
})

describe('a page of documentation', () => {
  it.each([
    ['the first word', 'What a node reports is stored.', 'name the subject'],
    ['the first word of a list item', '- Those that failed are retried.', 'name the subject'],
    ['a later sentence', 'The node joins. Whoever approves it is recorded.', 'name the subject'],
    ['a banned word', 'Each wish becomes one row.', 'intent, not wish'],
    ['two words for cannot', 'It can not be undone.', 'cannot in one word'],
    ['British spelling', 'The artefact is signed.', 'American spelling'],
  ])('%s is found', (_, page, rule) => expect(findPageProblems(page).map((problem) => problem.rule)).toContain(rule))

  it.each([
    ['a sentence with a subject', 'The controller stores one intent per node.'],
    ['a question', '## What is a node?'],
    ['code', 'Run `muster wish`.\n```\nWhat a wish\n```\n'],
  ])('%s is accepted', (_, page) => expect(findPageProblems(page)).toEqual([]))
})

describe('the subject of a commit', () => {
  it.each([
    ['Fix things', 'subjects read "area: what is now true"'],
    ['web: what is open is shown', 'name the subject'],
    ['store: Whoever writes last wins', 'name the subject'],
    ['store: a wish has one row', 'intent, not wish'],
    ['bus: a node can not answer twice', 'cannot in one word'],
    ['auth: authorise by key', 'American spelling'],
  ])('%j is refused: %s', (subject, problem) => expect(findSubjectProblem(subject)).toBe(problem))

  it.each(['cli: one file per noun', 'bus, host: plain words', "Merge branch 'wish'"])('%j is accepted', (subject) =>
    expect(findSubjectProblem(subject)).toBeNull(),
  )
})
