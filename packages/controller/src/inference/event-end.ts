// Where a stream of server-sent events stands, by its last bytes: what has to be written so that something new begins
// an event of its own. Nothing is parsed and nothing changed; a chunk may end anywhere.
export class EventEnd {
  /** The last four bytes, newest lowest: that is how long a blank line can be (CR LF CR LF). */
  #last = 0
  #isBegun = false

  note(chunk: Uint8Array): void {
    for (let i = Math.max(chunk.length - 4, 0); i < chunk.length; i += 1) this.#last = ((this.#last << 8) | (chunk[i] ?? 0)) >>> 0
    this.#isBegun ||= chunk.length > 0
  }

  /** What ends the event that is begun, if one is. */
  toFreshEvent(): '' | '\n' | '\n\n' {
    if (!this.#isBegun) return ''
    const last = String.fromCharCode(this.#last >>> 24, (this.#last >>> 16) & 255, (this.#last >>> 8) & 255, this.#last & 255)
    // Each of CR LF, CR and LF ends a line; two ends of lines in a row end an event.
    const ends = last.replaceAll('\r\n', '\n').replaceAll('\r', '\n')
    if (ends.endsWith('\n\n')) return ''
    return ends.endsWith('\n') ? '\n' : '\n\n'
  }
}
