// How deep a JSON text nests, found out before anybody parses it: the parser's time and memory grow with every level, and
// meanwhile nobody else is served. Linear, about a nanosecond per byte.

/** Deeper than any schema, tool call or configuration is. */
const maxDepth = 500

const [quote, backslash, openObject, closeObject, openList, closeList] = [0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d]

export function isTooDeep(text: Uint8Array, limit = maxDepth): boolean {
  let depth = 0
  let isInString = false
  for (let at = 0; at < text.length; at += 1) {
    const byte = text[at]
    if (isInString) {
      if (byte === backslash) at += 1
      else if (byte === quote) isInString = false
    } else if (byte === quote) isInString = true
    else if (byte === openObject || byte === openList) {
      depth += 1
      if (depth > limit) return true
    } else if (byte === closeObject || byte === closeList) depth -= 1
  }
  return false
}

export const tooDeepMessage = `the body nests more than ${maxDepth} levels deep`
