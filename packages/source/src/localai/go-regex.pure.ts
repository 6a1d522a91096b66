// Regular expressions of LocalAI's model files, in the syntax of Go (RE2), matched in linear time: a set of threads runs over the text
// once, so that no expression and no answer of a model can block the process. The engine of JavaScript backtracks.
import { FleetError } from '@muster/protocol'
import { type Instruction, parseRegex } from './go-regex-program.pure.ts'

/** `groups[0]` is the whole match; a group that took no part is null. */
export type RegexMatch = Readonly<{ index: number; end: number; groups: readonly (string | null)[] }>

export interface GoRegex {
  /** The names of the groups, by their number; null for groups without a name. */
  readonly names: readonly (string | null)[]
  /** All matches that do not overlap. Throws FleetError `invalid` when `budget` is used up. */
  findAll(text: string, budget?: RegexBudget): RegexMatch[]
  /** `$1`, `${1}` and `${name}` of the replacement are groups, as in Go. */
  replaceAll(text: string, replacement: string, budget?: RegexBudget): string
}

/** Shared by all expressions that read one text. This many steps take about 0.2 s. */
export type RegexBudget = { steps: number }

export const newRegexBudget = (): RegexBudget => ({ steps: 5_000_000 })

/** Throws FleetError `invalid`, with the part of the expression that is not supported. */
export function compileGoRegex(source: string): GoRegex {
  const { program, names } = parseRegex(source)
  const marks: Marks = { seenAt: new Float64Array(program.length), now: 0 }
  const findAll = (text: string, budget = newRegexBudget()): RegexMatch[] => {
    const matches: RegexMatch[] = []
    let last = -1
    for (let at = 0; at <= text.length;) {
      const found = search(program, text, { from: at, groups: names.length, marks, budget })
      if (found === null) break
      // As in Go, an empty match right after a match does not count.
      if (found.end > found.index || found.index !== last) matches.push(found)
      last = found.end
      at = found.end > found.index ? found.end : found.end + 1
    }
    return matches
  }
  return {
    names,
    findAll,
    replaceAll(text, replacement, budget) {
      const pieces: string[] = []
      let at = 0
      for (const match of findAll(text, budget)) {
        pieces.push(text.slice(at, match.index), expand(replacement, match, names))
        at = match.end
      }
      return pieces.join('') + text.slice(at)
    },
  }
}

/** Go takes the longest word after `$` as the name; an unknown one is empty. */
function expand(replacement: string, { groups }: RegexMatch, names: readonly (string | null)[]): string {
  return replacement.replaceAll(/\$(?:\$|\{(\w+)\}|(\w+))/g, (whole, braced?: string, bare?: string) => {
    const name = braced ?? bare
    if (name === undefined) return whole === '$$' ? '$' : whole
    return (/^\d+$/.test(name) ? groups[Number(name)] : groups[names.indexOf(name)]) ?? ''
  })
}

type Thread = Readonly<{ at: number; slots: readonly number[] }>
/** The instructions that were followed at the current place of the text. */
type Marks = { readonly seenAt: Float64Array; now: number }
type SearchOptions = Readonly<{ from: number; groups: number; marks: Marks; budget: RegexBudget }>

/** The leftmost match; among those of one start the first in the order of the expression. */
function search(program: readonly Instruction[], text: string, { from, groups, marks, budget }: SearchOptions): RegexMatch | null {
  let threads: Thread[] = []
  let match: readonly number[] | null = null
  for (let position = from; position <= text.length; position += 1) {
    const next: Thread[] = []
    const run: StepRun = { program, text, position, marks, budget }
    marks.now += 1
    const current: Thread[] = []
    for (const thread of threads) follow(thread, run, current)
    if (match === null) follow({ at: 0, slots: [] }, run, current)
    for (const { at, slots } of current) {
      budget.steps -= 1
      const instruction = program[at]
      if (instruction?.kind === 'match') {
        match = slots
        // Threads after this one have a lower priority.
        break
      }
      if (instruction?.kind === 'character' && position < text.length && instruction.accepts(text.charCodeAt(position)))
        next.push({ at: at + 1, slots })
    }
    if (budget.steps < 0) throw tooExpensive()
    threads = next
    if (threads.length === 0 && match !== null) break
  }
  return match === null ? null : matchOf(match, text, groups)
}

type StepRun = Readonly<{ program: readonly Instruction[]; text: string; position: number; marks: Marks; budget: RegexBudget }>

/** Follows all instructions that take no character, in the order of their priority. */
function follow(first: Thread, { program, text, position, marks, budget }: StepRun, into: Thread[]): void {
  const stack: Thread[] = [first]
  for (let thread = stack.pop(); thread !== undefined; thread = stack.pop()) {
    const { at, slots } = thread
    if (marks.seenAt[at] === marks.now) continue
    marks.seenAt[at] = marks.now
    budget.steps -= 1
    const instruction = program[at]
    switch (instruction?.kind) {
      case 'jump':
        stack.push({ at: instruction.to, slots })
        break
      case 'split':
        stack.push({ at: instruction.other, slots }, { at: instruction.first, slots })
        break
      case 'save': {
        const saved = [...slots]
        saved[instruction.slot] = position
        stack.push({ at: at + 1, slots: saved })
        break
      }
      case 'assert':
        if (instruction.holds(text, position)) stack.push({ at: at + 1, slots })
        break
      case 'character':
      case 'match':
        into.push(thread)
        break
      case undefined:
        break
      default:
        throw new Error('an instruction of another kind')
    }
  }
}

function matchOf(slots: readonly number[], text: string, count: number): RegexMatch {
  const groups = Array.from({ length: count }, (_, group) => {
    const [start, end] = [slots[2 * group], slots[2 * group + 1]]
    return start === undefined || end === undefined ? null : text.slice(start, end)
  })
  return { index: slots[0] ?? 0, end: slots[1] ?? 0, groups }
}

const tooExpensive = (): FleetError =>
  new FleetError({ code: 'invalid', retry: 'never', message: 'a regular expression of the model takes too long on this text' })
