// Hashes the beginning of a prompt to 32 bits, so that requests that share a prefix go to the replica that has it cached. For
// a chat the prefix ends with the first user message: all turns of a conversation have the same key. A long text counts by
// its length, beginning and end; only a few kilobytes are read, because every request waits for this.
import { inferenceRoutes } from '@muster/protocol'
import { mix } from './replica-choice.pure.ts'

/** For the part before the first user message, and for that message. */
const partChars = 4_096
const maxPromptChars = 512
const endChars = 64

/** Null for a request without a prompt. */
export function prefixKeyOf(path: string, body: object): number | null {
  const key = new KeyWriter()
  if (path === inferenceRoutes.chat.path) writeChat(key, body)
  else key.write(fieldOf(body, path === inferenceRoutes.completions.path ? 'prompt' : 'input'), maxPromptChars)
  return key.end()
}

/** The key of a text. */
export function textKeyOf(text: string): number {
  const key = new KeyWriter()
  key.write(text, partChars)
  return key.end() ?? 0
}

function writeChat(key: KeyWriter, body: object): void {
  const messages = fieldOf(body, 'messages')
  if (!Array.isArray(messages) || messages.length === 0) return
  const first = messages.findIndex((message) => isObject(message) && fieldOf(message, 'role') === 'user')
  // Templates put the tools before everything else.
  key.write([fieldOf(body, 'tools'), fieldOf(body, 'functions'), first === -1 ? messages : messages.slice(0, first)], partChars)
  if (first !== -1) key.write(messages[first], partChars)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
const fieldOf = (object: object, name: string): unknown => Reflect.get(object, name)

class KeyWriter {
  #hash = 0x81_1c_9d_c5
  #left = 0
  #isEmpty = true

  write(value: unknown, maxChars: number): void {
    this.#left = maxChars
    this.#value(value)
  }

  end(): number | null {
    return this.#isEmpty ? null : mix(this.#hash)
  }

  #value(value: unknown): void {
    if (value === undefined || this.#left <= 0) return
    if (typeof value === 'string') return this.#text(value)
    if (!isObject(value)) return this.#text(JSON.stringify(value))
    // Separates values: ['ab'] is not ['a', 'b'].
    this.#left -= 1
    if (Array.isArray(value)) {
      this.#hash = add(this.#hash, -1 - value.length)
      for (const each of value) this.#value(each)
      return
    }
    this.#hash = add(this.#hash, -1)
    for (const [name, each] of Object.entries(value)) {
      this.#text(name)
      this.#value(each)
    }
  }

  #text(text: string): void {
    this.#isEmpty = false
    const end = Math.min(text.length, this.#left)
    this.#left -= end + 1
    const start = add(this.#hash, text.length)
    this.#hash = addText(addText(start, text, { from: 0, to: end }), text, { from: Math.max(end, text.length - endChars), to: text.length })
  }
}

const add = (hash: number, number: number): number => Math.imul(hash ^ number, 0x01_00_01_93)

/** FNV-1a by characters. A plain loop over a local: nearly all the time goes here. */
function addText(hash: number, text: string, { from, to }: { from: number; to: number }): number {
  let sum = hash
  for (let at = from; at < to; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01_00_01_93)
  return sum
}
