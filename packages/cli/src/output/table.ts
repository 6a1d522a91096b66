// Plain aligned tables: a heading, one line per row, two spaces between columns. On a terminal, columns that may shrink are
// cut to its width; otherwise nothing is cut, so that grep and awk see all.
import { cutToWidth, displayWidth, plainText } from './text.ts'

export interface Column<Row> {
  readonly heading: string
  readonly cell: (row: Row) => string
  readonly align?: 'left' | 'right'
  /** May be cut with `…` on a narrow terminal. Never for text that people copy: ids, URLs. */
  readonly shrinks?: boolean
}

const gap = 2
/** A shorter cell is useless. */
const narrowest = 8

export interface TableLayout<Row> {
  heading(): string
  line(row: Row): string
}

/** Widths are fixed by the rows given; later lines keep to them. */
export function layOutTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], width: number | null): TableLayout<Row> {
  const texts = (row: Row): string[] => columns.map((column) => plainText(column.cell(row)) || '-')
  const all = [columns.map((column) => column.heading), ...rows.map(texts)]
  const natural = columns.map((_, at) => Math.max(...all.map((cells) => displayWidth(cells[at] ?? ''))))
  const widths = width === null ? natural : fitColumns(natural, columns, width)
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => padCell(cell, widths[at] ?? 0, columns[at]?.align))
      .join(' '.repeat(gap))
      .trimEnd()
  return { heading: () => line(columns.map((column) => column.heading)), line: (row) => line(texts(row)) }

  function padCell(cell: string, cellWidth: number, align: 'left' | 'right' = 'left'): string {
    const text = width === null ? cell : cutToWidth(cell, cellWidth)
    const padding = ' '.repeat(Math.max(0, cellWidth - displayWidth(text)))
    return align === 'right' ? padding + text : text + padding
  }
}

export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], width: number | null): string {
  const table = layOutTable(columns, rows, width)
  return [table.heading(), ...rows.map((row) => table.line(row))].join('\n')
}

/** Takes cells from the widest column that may shrink, again and again, until all fit or none can give. */
function fitColumns<Row>(natural: readonly number[], columns: readonly Column<Row>[], width: number): number[] {
  const widths = [...natural]
  const least = columns.map((column, at) =>
    column.shrinks === true ? Math.min(natural[at] ?? 0, Math.max(narrowest, column.heading.length)) : (natural[at] ?? 0),
  )
  const total = (): number => widths.reduce((sum, one) => sum + one, gap * (widths.length - 1))
  while (total() > width) {
    const shrinkable = widths.map((one, at) => (one > (least[at] ?? 0) ? one : -1))
    const widest = shrinkable.indexOf(Math.max(...shrinkable))
    if (Math.max(...shrinkable) < 0) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return widths
}

/** A heading beside each value, for one object; a value of several lines keeps its column. */
export function renderFields(fields: ReadonlyArray<readonly [heading: string, value: string | readonly string[]]>): string {
  const width = Math.max(...fields.map(([heading]) => displayWidth(heading)))
  return fields
    .flatMap(([heading, value]) => {
      const values = (typeof value === 'string' ? [value] : value).map((one) => plainText(one) || '-')
      return (values.length === 0 ? ['-'] : values).map((one, at) => `${(at === 0 ? heading : '').padEnd(width)}${' '.repeat(gap)}${one}`)
    })
    .join('\n')
}
