// Finds the first token of a response, its usage and an error event in its last bytes. A stream without usage is estimated at one
// token per event.
const tailBytes = 2_048

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
}

export class UsageReader {
  /** A copy: slices would keep whole chunks alive, and thousands of streams may be open. */
  readonly #tail = Buffer.allocUnsafe(2 * tailBytes)
  #length = 0
  #events = 0

  add(chunk: Buffer, isStream: boolean): void {
    if (isStream) for (let at = chunk.indexOf('\n\n'); at !== -1; at = chunk.indexOf('\n\n', at + 2)) this.#events += 1
    const last = chunk.length > tailBytes ? chunk.subarray(-tailBytes) : chunk
    if (this.#length + last.length > this.#tail.length) {
      this.#tail.copyWithin(0, this.#length - tailBytes, this.#length)
      this.#length = tailBytes
    }
    last.copy(this.#tail, this.#length)
    this.#length += last.length
  }

  /** The last event of the stream is an error. */
  hasErrorEvent(): boolean {
    const text = this.#tail.toString('latin1', 0, this.#length)
    return lastEvents.test(text)
  }

  read(): Usage {
    const usage = lastUsage(this.#tail.toString('latin1', 0, this.#length))
    const of = (field: string): number | null => {
      const digits = new RegExp(`"${field}"\\s*:\\s*(\\d{1,12})\\b`).exec(usage)?.[1]
      return digits === undefined ? null : Number(digits)
    }
    return { promptTokens: of('prompt_tokens') ?? 0, completionTokens: of('completion_tokens') ?? this.#events }
  }
}

/** An error event, then nothing but the end of the stream: other events before it may quote anything. */
const lastEvents = /(?:^|[\r\n])(?:data|error): ?\{\s*"error"\s*:[^\r\n]*(?:[\r\n](?:data: ?\[DONE\]|:[^\r\n]*)?)*$/

/** Text or a tool call. A role, an empty text and a comment are no token. */
const token = /"(?:content|text|reasoning_content|reasoning|refusal)"\s*:\s*"[^"]|"(?:tool_calls|function_call)"\s*:\s*[[{]\s*[{"]/
/** Longer than anything that `token` matches. */
const carriedChars = 64

/** Engines send headers, and often a first event with the role, before they compute. */
export class FirstTokenReader {
  #carried = ''
  #isFound = false

  /** True once: the chunk has the first token. */
  findIn(chunk: Buffer): boolean {
    if (this.#isFound) return false
    const text = this.#carried + chunk.toString('latin1')
    this.#isFound = token.test(text)
    this.#carried = text.slice(-carriedChars)
    return this.#isFound
  }
}

/**
 * The text from the last `usage` object to the end; chunks of a stream may have an empty one. Quotes inside generated text
 * are escaped, so only the field itself matches. Searched backwards: a regular expression over the whole tail took most of
 * a request's CPU time.
 */
function lastUsage(text: string): string {
  for (let at = text.lastIndexOf('"usage"'); at !== -1; at = at === 0 ? -1 : text.lastIndexOf('"usage"', at - 1)) {
    const field = text.slice(at)
    if (/^"usage"\s*:\s*\{/.test(field)) return field
  }
  return ''
}
