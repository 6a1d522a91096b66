// "Did you mean …": the candidate that takes the fewest single-letter edits to become the word.
export function closestWord(word: string, candidates: Iterable<string>): string | null {
  let closest: { candidate: string; edits: number } | null = null
  for (const candidate of candidates) {
    const edits = editsBetween(word.toLowerCase(), candidate.toLowerCase())
    if (closest === null || edits < closest.edits) closest = { candidate, edits }
  }
  return closest?.candidate ?? null
}

/** Levenshtein's distance, one row of the table at a time. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, at(row, j) + 1, at(next, j - 1) + 1))
    }
    row = next
  }
  return at(row, b.length)
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.POSITIVE_INFINITY
