import { describe, expect, it } from 'vitest'
import { createStatementNames } from './connect.ts'

const ask = (names: ReturnType<typeof createStatementNames>, text: string, times: number): (string | undefined)[] =>
  Array.from({ length: times }, () => names.nameOf(text))

describe('the name of a statement', () => {
  it('is given when it has come a few times, and stays', () => {
    const names = createStatementNames()
    expect(ask(names, 'select 1', 5)).toEqual([undefined, undefined, 's0', 's0', 's0'])
    expect(ask(names, 'select 2', 3)).toEqual([undefined, undefined, 's1'])
  })
  it('is not given again to one that cannot be prepared', () => {
    const names = createStatementNames()
    ask(names, 'select 1', 3)
    names.forget('select 1')
    expect(ask(names, 'select 1', 5)).toEqual(Array.from({ length: 5 }))
  })
  it('is given to a limited number: texts that differ each time are not kept', () => {
    const names = createStatementNames()
    for (let n = 0; n < 300; n += 1) ask(names, `select ${n}`, 3)
    expect(names.nameOf('select 199')).toBe('s199')
    expect(names.nameOf('select 250')).toBeUndefined()
  })
})
