import { describe, expect, it } from 'vitest'
import { createScreen, createStatusLine } from './terminal.ts'

/** The output, with ␛ for the escape character. */
function screenOf(rows: number) {
  let last = ''
  const write = (text: string): void => void (last = text.replaceAll('\u001b', '␛'))
  const screen = createScreen({ write, isTTY: true, columns: 100, rows })
  return { screen, last: () => last, lines: () => last.match(/(?<=␛\[2K).*(?=\n)/g) }
}

describe('createScreen', () => {
  it('draws over its last output, and clears the rest', () => {
    const { screen, last, lines } = screenOf(24)
    screen.draw(['a', 'b', 'c'])
    expect(last()).not.toMatch(/␛\[\d+A/)
    screen.draw(['x'])
    expect(last()).toMatch(/^␛\[3A/)
    expect(lines()).toEqual(['x'])
    expect(last()).toMatch(/\n␛\[J/)
  })

  it('draws no more than there is room for, and prints how much is left out', () => {
    const { screen, lines } = screenOf(5)
    screen.draw(['1', '2', '3', '4'])
    expect(lines()).toEqual(['1', '2', '3', '4'])
    screen.draw(['1', '2', '3', '4', '5', '6'])
    expect(lines()).toEqual(['1', '2', '3', '… and 3 more'])
  })

  it('lets no line wrap, and leaves the terminal as it was', () => {
    const { screen, last } = screenOf(24)
    screen.draw(['a'])
    expect(last()).toMatch(/^␛\[\?7l.*␛\[\?7h$/s)
  })
})

describe('createStatusLine', () => {
  it('draws over itself, never wraps, and leaves nothing behind', () => {
    let written = ''
    const line = createStatusLine({ write: (text) => (written += text), isTTY: true, columns: 24 })
    line.clear()
    expect(written).toBe('')
    line.show('short')
    line.show('x'.repeat(50))
    line.clear()
    line.clear()
    expect(written).toBe(`\r\u001b[2Kshort\r\u001b[2K${'x'.repeat(22)}…\r\u001b[2K`)
  })
})
