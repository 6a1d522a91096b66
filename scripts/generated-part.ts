// Pages of the documentation with parts that are made from the code: a part stands between two markers, everything else is
// written by hand. Pure.

const begin = (name: string): string => `<!-- begin generated: ${name} -->`
const end = (name: string): string => `<!-- end generated: ${name} -->`

/** The page with each part put between its markers; throws when the markers of one are not there exactly once, in order. */
export function withGeneratedParts(page: string, parts: Readonly<Record<string, string>>): string {
  return Object.entries(parts).reduce((text, [name, part]) => withPart(text, name, part), page)
}

function withPart(page: string, name: string, part: string): string {
  const [before, rest, ...more] = page.split(begin(name))
  const [, after, ...late] = rest?.split(end(name)) ?? []
  if (before === undefined || after === undefined || more.length > 0 || late.length > 0) {
    throw new Error(`the page needs the two markers of "${name}", once each: ${begin(name)} and ${end(name)}`)
  }
  return `${before}${begin(name)}\n${part}\n${end(name)}${after}`
}

/** A table of Markdown. Cells are text: what would end a cell or begin markup is escaped. */
export function markdownTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escapeCell).join(' | ')} |`
  return [line(headings), line(headings.map(() => '---')), ...rows.map(line)].join('\n')
}

/** Inside of backquotes `<` is itself; outside it would begin a tag. */
const escapeCell = (cell: string): string =>
  cell
    .split(/(`[^`]*`)/)
    .map((piece, at) => (at % 2 === 1 ? piece : piece.replaceAll('<', '&lt;')).replaceAll('|', '\\|'))
    .join('')
