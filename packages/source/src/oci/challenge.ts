// WWW-Authenticate: what a registry asks for. The header comes from a stranger and has its own quoting; what can't be
// read is no challenge, and then there is nothing to answer.
export type Challenge = Readonly<{ scheme: string; parameters: Readonly<Record<string, string>> }>

const longestHeader = 8192
const mostChallenges = 16

/** Schemes and parameter names in lower case; the first of a parameter that is given twice counts. */
export function parseChallenges(header: string | undefined): Challenge[] {
  if (header === undefined || header.length > longestHeader) return []
  const challenges: { scheme: string; parameters: Record<string, string> }[] = []
  // A token with `=` behind it is a parameter, one without begins a challenge.
  const part = /\s*,?\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+)))?/y
  while (part.lastIndex < header.length) {
    const at = part.lastIndex
    const match = part.exec(header)
    if (match === null) return header.slice(at).trim() === '' ? challenges : []
    const [, token = '', quoted, bare] = match
    const value = quoted === undefined ? bare : quoted.replace(/\\(.)/g, '$1')
    const last = challenges.at(-1)
    if (value === undefined) challenges.push({ scheme: token.toLowerCase(), parameters: {} })
    else if (last === undefined) return []
    else if (!Object.hasOwn(last.parameters, token.toLowerCase())) last.parameters[token.toLowerCase()] = value
    if (challenges.length > mostChallenges) return []
  }
  return challenges
}
