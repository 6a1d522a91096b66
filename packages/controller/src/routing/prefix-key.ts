// The beginning of what a model is asked, as 32 bits: requests that begin alike find what their replica has computed before.
// Of a chat that is everything before and with the first thing that the user says, so that all turns of a conversation have
// the same, and conversations that differ there another. Long texts count with their length, their beginning and their
// end; what is more than some kilobytes is not looked at, because every request waits for this.
import { inferenceRoutes } from '@muster/protocol'
import { mix } from './choose.ts'

/** Of what comes before the user's first words, and of those. */
const partChars = 8_192
const maxPromptChars = 512
const endChars = 64

/** Null when there is nothing to go by. */
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
    // Where one thing ends and the next begins: ['ab'] is not ['a', 'b'].
    this.#left -= 1
    if (Array.isArray(value)) {
      this.#add(-1 - value.length)
      for (const each of value) this.#value(each)
      return
    }
    this.#add(-1)
    for (const [name, each] of Object.entries(value)) {
      this.#text(name)
      this.#value(each)
    }
  }

  #text(text: string): void {
    this.#isEmpty = false
    this.#add(text.length)
    const end = Math.min(text.length, this.#left)
    for (let at = 0; at < end; at += 1) this.#add(text.charCodeAt(at))
    this.#left -= end + 1
    for (let at = Math.max(end, text.length - endChars); at < text.length; at += 1) this.#add(text.charCodeAt(at))
  }

  #add(number: number): void {
    this.#hash = Math.imul(this.#hash ^ number, 0x01_00_01_93)
  }
}
