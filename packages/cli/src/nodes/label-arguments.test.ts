import { describe, expect, it } from 'vitest'
import { CliError } from '../cli-error.ts'
import { parseLabelArguments } from '../arguments.ts'

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
    ['a label that Muster sets itself', ['gpu.vendor=nvidia'], /set by Muster itself/],
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
