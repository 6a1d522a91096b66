import { describe, expect, it } from 'vitest'
import { displayWidth } from './text.ts'
import { type Column, layOutTable, renderFields, renderTable } from './table.ts'

type Row = { name: string; id: string; load: number }
const columns: Column<Row>[] = [
  { heading: 'NAME', cell: (row) => row.name, shrinks: true },
  { heading: 'ID', cell: (row) => row.id },
  { heading: 'LOAD', cell: (row) => String(row.load), align: 'right' },
]
const row = (some: Partial<Row>): Row => ({ name: 'gpu-1', id: 'n-1', load: 0, ...some })

describe('renderTable', () => {
  it('aligns columns under their headings, numbers to the right, without trailing blanks', () =>
    expect(renderTable(columns, [row({ load: 12 }), row({ name: 'a', id: 'n-22' })], null)).toBe(
      ['NAME   ID    LOAD', 'gpu-1  n-1     12', 'a      n-22     0'].join('\n'),
    ))

  it('shows an empty cell as a dash, so that columns can be counted', () =>
    expect(renderTable(columns, [row({ name: '' })], null).split('\n')[1]).toBe('-     n-1     0'))

  it('cuts only columns that may shrink to the width of the terminal', () => {
    const lines = renderTable(columns, [row({ name: 'n'.repeat(100), id: 'i'.repeat(40) })], 80).split('\n')
    expect(lines.map(displayWidth)).toEqual([80, 80])
    expect(lines[1]).toContain('i'.repeat(40))
    expect(lines[1]).toContain('n…')
  })

  it('cuts nothing where no terminal is: others search and split the lines', () =>
    expect(renderTable(columns, [row({ name: 'n'.repeat(100) })], null)).toContain('n'.repeat(100)))

  it('is wider than the terminal rather than cut text that people copy', () =>
    expect(renderTable(columns, [row({ id: 'i'.repeat(90) })], 40)).toContain('i'.repeat(90)))

  it('keeps columns straight with wide characters', () => {
    const [, first, second] = renderTable(columns, [row({ name: '机器' }), row({ name: 'abcd' })], null).split('\n')
    expect(displayWidth(first ?? '')).toBe(displayWidth(second ?? ''))
  })

  it('lets no cell break out of its line', () =>
    expect(renderTable(columns, [row({ name: 'a\nb\u001b[2J' })], null).split('\n')).toHaveLength(2))

  it('keeps later lines to the widths of the first rows', () => {
    const layout = layOutTable(columns, [row({ name: 'long-name' })], null)
    expect(layout.line(row({ name: 'x' })).indexOf('n-1')).toBe(layout.heading().indexOf('ID'))
  })
})

describe('renderFields', () => {
  it('puts each value beside its heading, one line per value, a dash for none', () =>
    expect(
      renderFields([
        ['Name', 'gpu-1'],
        ['Labels', ['a=1', 'b=2']],
        ['Models', []],
      ]),
    ).toBe(['Name    gpu-1', 'Labels  a=1', '        b=2', 'Models  -'].join('\n')))
})
