import { describe, expect, it } from 'vitest'
import { CliError } from './cli-error.ts'
import { findByName } from './arguments.ts'

const items = [
  { id: 'n-1', name: 'gpu' },
  { id: 'n-2', name: 'gpu' },
  { id: 'n-3', name: 'cpu' },
  { id: 'n-4', name: 'n-3' },
]

const refusal = (wanted: string): unknown => {
  try {
    return findByName('node', items, wanted)
  } catch (error) {
    return error
  }
}

describe('findByName', () => {
  it.each([
    ['an id', 'n-2', 'n-2'],
    ['a name that one of them has', 'cpu', 'n-3'],
    ['the id, where another one took it as its name', 'n-3', 'n-3'],
  ])('finds by %s', (_, wanted, id) => expect(findByName('node', items, wanted).id).toBe(id))

  it('refuses a name that several have, and lists their ids', () => {
    expect(refusal('gpu')).toMatchObject({ exitCode: 2, message: '2 nodes are called "gpu": name one by its id', hint: 'n-1\nn-2' })
  })

  it('says that nothing has this name, and how to see all', () => {
    expect(refusal('x\u001b[2J')).toMatchObject({ exitCode: 1, message: 'no node has the id or name "x"' })
    expect(refusal('x')).toBeInstanceOf(CliError)
  })
})
