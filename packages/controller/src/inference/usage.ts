// How many tokens an answer says that it took, read from its last bytes: what it consists of is nobody's business here.
// An answer that does not say gets an estimate: one token per event of a stream.
const tailBytes = 2_048

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
}

export class UsageReader {
  /** Copied, not kept as slices: a slice keeps all that was read with it, and thousands of streams may be open. */
  readonly #tail = Buffer.allocUnsafe(2 * tailBytes)
  #length = 0
  #events = 0

  note(chunk: Buffer, isStream: boolean): void {
    if (isStream) for (let at = chunk.indexOf('\n\n'); at !== -1; at = chunk.indexOf('\n\n', at + 2)) this.#events += 1
    const last = chunk.length > tailBytes ? chunk.subarray(-tailBytes) : chunk
    if (this.#length + last.length > this.#tail.length) {
      this.#tail.copyWithin(0, this.#length - tailBytes, this.#length)
      this.#length = tailBytes
    }
    last.copy(this.#tail, this.#length)
    this.#length += last.length
  }

  read(): Usage {
    const usage = lastUsage(this.#tail.toString('latin1', 0, this.#length))
    const of = (field: string): number | null => {
      const found = new RegExp(`"${field}"\\s*:\\s*(\\d{1,12})\\b`).exec(usage)?.[1]
      return found === undefined ? null : Number(found)
    }
    return { promptTokens: of('prompt_tokens') ?? 0, completionTokens: of('completion_tokens') ?? this.#events }
  }
}

/**
 * From the last such field that is an object to the end; chunks of a stream may have an empty one. Inside a text of the
 * answer its quotes would be escaped, so only the field itself looks like this. Searched backwards: an expression that
 * begins with anything at all looks at a tail without one some four thousand times, which was most of what a request cost.
 */
function lastUsage(text: string): string {
  for (let at = text.lastIndexOf('"usage"'); at !== -1; at = at === 0 ? -1 : text.lastIndexOf('"usage"', at - 1)) {
    const field = text.slice(at)
    if (/^"usage"\s*:\s*\{/.test(field)) return field
  }
  return ''
}
