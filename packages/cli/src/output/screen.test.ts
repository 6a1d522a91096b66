import { describe, expect, it } from 'vitest'
import { createScreen } from './screen.ts'

function screenOf(rows: number) {
  const written: string[] = []
  const screen = createScreen({ write: (text) => written.push(text), isTTY: true, columns: 100, rows })
  const last = (): string => written.at(-1) ?? ''
  return { screen, last, lines: () => last().match(/(?<=\u001b\[2K).*(?=\n)/g) }
}

describe('createScreen', () => {
  it('draws in place of what it drew before, and clears what is left of it', () => {
    const { screen, last, lines } = screenOf(24)
    screen.draw(['a', 'b', 'c'])
    expect(last()).not.toMatch(/\u001b\[\d+A/)
    screen.draw(['x'])
    expect(last()).toMatch(/^\u001b\[3A/)
    expect(lines()).toEqual(['x'])
    expect(last()).toMatch(/\n\u001b\[J/)
  })

  it('draws no more than there is room for, and says how much is left out', () => {
    const { screen, lines } = screenOf(5)
    screen.draw(['1', '2', '3', '4'])
    expect(lines()).toEqual(['1', '2', '3', '4'])
    screen.draw(['1', '2', '3', '4', '5', '6'])
    expect(lines()).toEqual(['1', '2', '3', '… and 3 more'])
  })

  it('lets no line wrap, and leaves the terminal as it was', () => {
    const { screen, last } = screenOf(24)
    screen.draw(['a'])
    expect(last()).toMatch(/^\u001b\[\?7l.*\u001b\[\?7h$/s)
  })
})
