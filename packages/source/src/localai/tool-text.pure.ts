// Reads tool calls out of the text of an answer, by the `function` keys of LocalAI's model files. For models with Go templates: other
// backends report tool calls as such.
import { FleetError, type FunctionConfig } from '@muster/protocol'
import { compileGoRegex, type GoRegex, newRegexBudget, type RegexBudget, type RegexMatch } from './go-regex.pure.ts'

export type TextCall = Readonly<{ name: string; arguments: string }>
/** `content`: the text beside the calls, or the whole text without calls. */
export type ToolText = Readonly<{ content: string; calls: readonly TextCall[] }>

/** A longer text is not searched for calls. */
export const longestToolText = 256 * 1024
const mostCalls = 128
/** Characters that are read again after an object that was none. */
const mostScanned = 16 * longestToolText

/** `names`: the tools of the request. Throws FleetError `invalid` for an expression that is not supported. */
export function compileToolText(config: FunctionConfig): (text: string, names: ReadonlySet<string>) => ToolText {
  const rules = compileRules(config)
  return (text, names) => {
    if (text.length > longestToolText) return { content: text, calls: [] }
    try {
      return readToolText(text, names, rules)
    } catch (error) {
      // An expression that takes too long: the answer stays text.
      if (error instanceof FleetError) return { content: text, calls: [] }
      throw error
    }
  }
}

type Replacement = Readonly<{ regex: GoRegex; value: string }>
type Rules = Readonly<{
  captures: readonly GoRegex[]
  cleanUps: readonly Replacement[]
  replacements: readonly Replacement[]
  jsonMatches: readonly GoRegex[]
  responses: readonly GoRegex[]
  argumentPairs: readonly GoRegex[]
  keyName: string
  valueName: string
}>

function compileRules(config: FunctionConfig): Rules {
  const all = (key: string, sources: readonly string[] = []): GoRegex[] => sources.map((source) => compileAs(key, source))
  const replacements = (key: string, list: readonly { key: string; value: string }[] = []): Replacement[] =>
    list.map((each) => ({ regex: compileAs(key, each.key), value: each.value }))
  return {
    captures: all('capture_llm_results', config.capture_llm_results),
    cleanUps: replacements('replace_llm_results', config.replace_llm_results),
    replacements: replacements('replace_function_results', config.replace_function_results),
    jsonMatches: all('json_regex_match', config.json_regex_match),
    responses: all('response_regex', config.response_regex),
    argumentPairs: all('argument_regex', config.argument_regex),
    keyName: config.argument_regex_key_name ?? 'key',
    valueName: config.argument_regex_value_name ?? 'value',
  }
}

function compileAs(key: string, source: string): GoRegex {
  try {
    return compileGoRegex(source)
  } catch (error) {
    if (!(error instanceof FleetError)) throw error
    throw new FleetError({ ...error.failure, message: `function.${key}: ${error.failure.message}` }, { cause: error })
  }
}

function readToolText(text: string, names: ReadonlySet<string>, rules: Rules): ToolText {
  const budget = newRegexBudget()
  const replaced = (from: string, list: readonly Replacement[]): string =>
    list.reduce((current, { regex, value }) => regex.replaceAll(current, value, budget), from)
  const captured = firstCapture(text, rules.captures, budget)
  const cleaned = replaced(text, rules.cleanUps)
  const calls = callsIn(replaced(cleaned, rules.replacements), names, { rules, budget }).slice(0, mostCalls)
  return calls.length === 0 ? { content: cleaned, calls } : { content: captured, calls }
}

function firstCapture(text: string, captures: readonly GoRegex[], budget: RegexBudget): string {
  for (const regex of captures) {
    const [match] = regex.findAll(text, budget)
    if (match !== undefined) return match.groups[1] ?? ''
  }
  return ''
}

type Reading = Readonly<{ rules: Rules; budget: RegexBudget }>

function callsIn(text: string, names: ReadonlySet<string>, { rules, budget }: Reading): TextCall[] {
  if (rules.responses.length > 0) return rules.responses.flatMap((regex) => namedCalls(regex, text, { rules, budget }))
  for (const regex of rules.jsonMatches) {
    const found = regex.findAll(text, budget).flatMap(({ groups }) => groups[1] ?? [])
    if (found.length > 0) return found.flatMap((each) => objectsIn(each).flatMap(callOf))
  }
  // No expression says where a call begins: only an object that names a tool is one.
  return objectsIn(text)
    .flatMap(callOf)
    .filter(({ name }) => names.has(name))
}

/** The groups `name` and `arguments` of each match. */
function namedCalls(regex: GoRegex, text: string, { rules, budget }: Reading): TextCall[] {
  const calls: TextCall[] = []
  for (const match of regex.findAll(text, budget)) {
    const name = namedGroup(regex, match, 'name')
    if (name === '') return calls
    const args = namedGroup(regex, match, 'arguments')
    calls.push({ name, arguments: rules.argumentPairs.length === 0 ? args : JSON.stringify(pairsIn(args, { rules, budget })) })
  }
  return calls
}

const namedGroup = ({ names }: GoRegex, { groups }: RegexMatch, name: string): string => groups[names.indexOf(name)] ?? ''

/** Sorted by key, as Go writes a map. */
function pairsIn(text: string, { rules, budget }: Reading): Record<string, string> {
  const pairs = rules.argumentPairs.flatMap((regex) =>
    regex
      .findAll(text, budget)
      .map((match): [string, string] => [namedGroup(regex, match, rules.keyName), namedGroup(regex, match, rules.valueName)]),
  )
  return Object.fromEntries([...new Map(pairs)].toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

function callOf(found: Readonly<Record<string, unknown>>): TextCall[] {
  const { name, arguments: args = found['parameters'] } = found
  if (typeof name !== 'string' || name === '' || args === undefined) return []
  return [{ name, arguments: typeof args === 'string' ? args : JSON.stringify(args) }]
}

/** Every JSON object of a text, wherever it stands: outermost ones, also in lists and between words. */
function objectsIn(text: string): Readonly<Record<string, unknown>>[] {
  const objects: Readonly<Record<string, unknown>>[] = []
  let scanned = 0
  for (let at = text.indexOf('{'); at !== -1 && scanned < mostScanned;) {
    const end = endOfObject(text, at)
    const found = end === null ? null : parseObject(text.slice(at, end))
    if (found !== null) objects.push(found)
    scanned += (end ?? text.length) - at
    at = text.indexOf('{', found === null || end === null ? at + 1 : end)
  }
  return objects
}

function endOfObject(text: string, from: number): number | null {
  let depth = 0
  let isInText = false
  for (let at = from; at < text.length; at += 1) {
    const sign = text[at]
    if (isInText && sign === '\\') at += 1
    else if (sign === '"') isInText = !isInText
    else if (!isInText && sign === '{') depth += 1
    else if (!isInText && sign === '}') depth -= 1
    if (depth === 0) return at + 1
  }
  return null
}

function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  for (const attempt of [text, escapeLineBreaks(text)]) {
    try {
      const value: unknown = JSON.parse(attempt)
      if (typeof value === 'object' && value !== null) return { ...value }
    } catch {
      // The next attempt.
    }
  }
  return null
}

/** Models break lines inside texts, which JSON does not allow. */
const escapeLineBreaks = (json: string): string => json.replaceAll(/"(?:[^"\\]|\\.)*"/gs, (text) => text.replaceAll('\n', String.raw`\n`))
