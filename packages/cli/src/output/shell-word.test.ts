import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { shellWord } from './text.ts'

describe('shellWord', () => {
  it.each(['/plain/path', "/it's here", '/a b', '/$(touch x)`y`', '/ü"\\', ''])('gives a shell back %j', (text) =>
    expect(execFileSync('sh', ['-c', `printf %s "$(printf %s ${shellWord(text)})"`], { encoding: 'utf8' })).toBe(text),
  )
})
