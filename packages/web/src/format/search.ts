// Searching, alike on every page: each word has to be somewhere in it, in any case. Pure.
export type Search = (...texts: readonly string[]) => boolean

/** Nothing to search for finds everything. */
export function searchFor(text: string): Search {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return (...texts) => {
    if (words.length === 0) return true
    const all = texts.join('\n').toLowerCase()
    return words.every((word) => all.includes(word))
  }
}
