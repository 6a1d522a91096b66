import { describe, expect, it } from 'vitest'
import { findByName, parseLabelArguments } from './arguments.ts'
import { CliError } from './cli-error.ts'

const items = [
  { id: 'n-1', name: 'gpu' },
  { id: 'n-2', name: 'gpu' },
  { id: 'n-3', name: 'cpu' },
  { id: 'n-4', name: 'n-3' },
]

const findRefusal = (wanted: string): unknown => {
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
    expect(findRefusal('gpu')).toMatchObject({ exitCode: 2, message: '2 nodes have the name "gpu": use the ID', hint: 'n-1\nn-2' })
  })

  it('reports an unknown name, and the command that lists all', () => {
    expect(findRefusal('x\u001b[2J')).toMatchObject({ exitCode: 1, message: 'no node has the id or name "x"' })
    expect(findRefusal('x')).toBeInstanceOf(CliError)
  })
})

describe('parseLabelArguments', () => {
  it.each<[string, string[], Record<string, string | null>]>([
    ['sets', ['rack=b2'], { rack: 'b2' }],
    ['takes away', ['rack-'], { rack: null }],
    ['keeps an equals sign in the value', ['expr=a=b'], { expr: 'a=b' }],
    ['keeps a dash at the end of a value', ['x=y-'], { x: 'y-' }],
    ['takes an empty value', ['x='], { x: '' }],
    ['does several at once', ['a=1', 'b-', 'c.d/e=2'], { a: '1', b: null, 'c.d/e': '2' }],
  ])('%s', (_, words, want) => expect(parseLabelArguments(words)).toEqual(want))

  it.each([
    ['a word that is neither', ['rack'], /KEY=VALUE/],
    ['an empty key', ['=x'], /KEY=VALUE/],
    ['a lone dash', ['-'], /KEY=VALUE/],
    ['the same key twice', ['a=1', 'a-'], /given twice/],
    ['a label that Muster sets itself', ['gpu.vendor=nvidia'], /set by Muster/],
    ['a key that is none', ['a b=1'], /a label key is/],
    ['a value that is too long', [`a=${'x'.repeat(300)}`], /a label value is|255/],
  ])('refuses %s as wrong usage', (_, words, message) => {
    const refusal = catchIt(() => parseLabelArguments(words))
    expect(refusal).toBeInstanceOf(CliError)
    expect(refusal).toMatchObject({ exitCode: 2, message: expect.stringMatching(message) as string })
  })
})

function catchIt(act: () => unknown): unknown {
  try {
    return act()
  } catch (error) {
    return error
  }
}
