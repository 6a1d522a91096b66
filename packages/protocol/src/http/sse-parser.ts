// Parses server-sent events from text that arrives in pieces (WHATWG HTML, "event stream interpretation"). Keeps unfinished
// events until the next piece. Pure.
export interface ServerEvent {
  readonly type: string
  readonly data: string
  /** The ID to resume after; unchanged by an event without an ID. */
  readonly lastEventId: string
}

export interface SseParser {
  push(text: string): ServerEvent[]
}

/** More than any event of Muster needs; a stream without line breaks must not fill the memory. */
const maxBufferedChars = 16 * 1024 * 1024

export function createSseParser(lastEventId: string): SseParser {
  let rest = ''
  let atStart = true
  let type = ''
  let data: string[] = []
  let id = lastEventId

  function takeLine(line: string): ServerEvent | null {
    if (line === '') return dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return null
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') type = value
    if (field === 'data') data.push(value)
    if (field === 'id' && !value.includes('\0')) id = value
    return null
  }

  function dispatch(): ServerEvent | null {
    const event = data.length === 0 ? null : { type: type || 'message', data: data.join('\n'), lastEventId: id }
    type = ''
    data = []
    return event
  }

  return {
    push: (text) => {
      rest += atStart ? text.replace(/^\uFEFF/, '') : text
      atStart = atStart && text === ''
      if (rest.length > maxBufferedChars) throw new Error('event stream refused: an event is longer than 16 MiB')
      // A CR at the end may be half of a CRLF: keep it for the next piece.
      const lines = rest.split(/\r\n|\n|\r(?!$)/)
      rest = lines.pop() ?? ''
      return lines.map(takeLine).filter((event) => event !== null)
    },
  }
}
