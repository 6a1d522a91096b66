// Statements that come again are prepared once per connection: planning the ones that carry the queue costs PostgreSQL
// more than running them. A name is given when a text has come a few times, so that texts which differ each time (lists
// of other lengths) are not kept.
const comesAgainAfter = 3
const maxNames = 200
const maxWatched = 2_000

export interface StatementNames {
  /** Undefined: send it as it is. */
  nameOf(text: string): string | undefined
  /** It can't be prepared any more: a migration changed what it returns while this process runs. */
  forget(text: string): void
}

export function createStatementNames(): StatementNames {
  const seen = new Map<string, number>()
  const names = new Map<string, string | undefined>()
  return {
    nameOf(text) {
      if (names.has(text)) return names.get(text)
      const times = (seen.get(text) ?? 0) + 1
      if (times < comesAgainAfter) {
        if (seen.size >= maxWatched) seen.clear()
        seen.set(text, times)
        return undefined
      }
      seen.delete(text)
      if (names.size >= maxNames) return undefined
      const name = `s${names.size}`
      names.set(text, name)
      return name
    },
    forget: (text) => void names.set(text, undefined),
  }
}
