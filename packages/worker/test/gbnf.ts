// A recognizer for grammars of llama.cpp (GBNF), for tests: does a grammar admit this text? Sets of end positions, no look-ahead.
type Ends = ReadonlySet<number>
type Matcher = (text: string, at: number) => Ends

export function accepts(grammar: string, text: string): boolean {
  const rules = new Map<string, Matcher>()
  for (const line of grammar.split('\n').filter((each) => each !== '')) {
    const [, name = '', body = ''] = /^(\S+) ::= (.*)$/.exec(line) ?? []
    if (name === '' || rules.has(name)) throw new Error(`not a rule: ${line}`)
    rules.set(name, new BodyReader(body, rules).readAll())
  }
  const root = rules.get('root')
  if (root === undefined) throw new Error('no root')
  return root(text, 0).has(text.length)
}

const sticky = {
  literal: /"((?:[^"\\]|\\.)*)"/y,
  class: /\[(\^?)((?:[^\]\\]|\\.)*)\]/y,
  name: /[a-z][a-z0-9]*/y,
  repeat: /[*+?]|\{(\d+)(,)?(\d*)\}/y,
  space: / */y,
}

class BodyReader {
  readonly #body: string
  readonly #rules: ReadonlyMap<string, Matcher>
  #at = 0

  constructor(body: string, rules: ReadonlyMap<string, Matcher>) {
    this.#body = body
    this.#rules = rules
  }

  readAll(): Matcher {
    const matcher = this.#readAlternatives()
    if (this.#at !== this.#body.length) throw new Error(`unexpected ${this.#body.slice(this.#at)}`)
    return matcher
  }

  #readAlternatives(): Matcher {
    const alternatives = [this.#readSequence()]
    while (this.#takeSign('|')) alternatives.push(this.#readSequence())
    return (text, at) => new Set(alternatives.flatMap((each) => [...each(text, at)]))
  }

  #readSequence(): Matcher {
    const items: Matcher[] = []
    for (let item = this.#readItem(); item !== null; item = this.#readItem()) items.push(this.#readRepeat(item))
    return (text, at) => items.reduce<Ends>((ends, item) => new Set([...ends].flatMap((end) => [...item(text, end)])), new Set([at]))
  }

  #readItem(): Matcher | null {
    this.#take(sticky.space)
    if (this.#takeSign('(')) {
      const inside = this.#readAlternatives()
      if (!this.#takeSign(')')) throw new Error('expected )')
      return inside
    }
    const literal = this.#take(sticky.literal)
    if (literal !== null) {
      const wanted = unescape(literal[1] ?? '')
      return (text, at) => new Set(text.startsWith(wanted, at) ? [at + wanted.length] : [])
    }
    const list = this.#take(sticky.class)
    if (list !== null) {
      const one = new RegExp(`^${list[0]}$`, 's')
      return (text, at) => new Set(at < text.length && one.test(text[at] ?? '') ? [at + 1] : [])
    }
    const name = this.#take(sticky.name)?.[0]
    if (name === undefined) return null
    return (text, at) => {
      const rule = this.#rules.get(name)
      if (rule === undefined) throw new Error(`no rule ${name}`)
      return rule(text, at)
    }
  }

  #readRepeat(item: Matcher): Matcher {
    const found = this.#take(sticky.repeat)
    if (found === null) return item
    const [sign, from, comma, to] = found
    const least = from === undefined ? (sign === '+' ? 1 : 0) : Number(from)
    const most = from === undefined ? (sign === '?' ? 1 : Infinity) : comma === undefined ? least : to === '' ? Infinity : Number(to)
    return (text, at) => {
      const ends = new Set<number>(least === 0 ? [at] : [])
      let current: Ends = new Set([at])
      for (let times = 1; times <= most && current.size > 0; times += 1) {
        current = new Set([...current].flatMap((end) => [...item(text, end)]))
        if (times >= least && [...current].every((end) => ends.has(end))) break
        if (times >= least) for (const end of current) ends.add(end)
      }
      return ends
    }
  }

  #take(rule: RegExp): RegExpExecArray | null {
    rule.lastIndex = this.#at
    const found = rule.exec(this.#body)
    if (found !== null) this.#at = rule.lastIndex
    return found
  }

  #takeSign(sign: string): boolean {
    this.#take(sticky.space)
    if (this.#body[this.#at] !== sign) return false
    this.#at += 1
    return true
  }
}

const unescape = (text: string): string =>
  text.replaceAll(/\\(.)/g, (_, letter: string) => (letter === 'n' ? '\n' : letter === 't' ? '\t' : letter))
