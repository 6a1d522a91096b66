// docs/guarantees.md names a test for each promise; a test that was moved or renamed would leave a promise without proof.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
const page = readFileSync(join(root, 'docs', 'guarantees.md'), 'utf8')
const citations = [...page.matchAll(/`((?:packages|tests)\/[^`]+\.test\.tsx?)` "([^"]+)"/g)].map(([, file = '', name = '']) => ({
  file,
  name,
}))

/** True when the file has a test whose name contains this text. */
function hasTest(source: string, name: string): boolean {
  const written = [name, name.replaceAll("'", String.raw`\'`)]
  return source.split('\n').some((line) => /['"`]/.test(line) && written.some((each) => line.includes(each)))
}

describe('docs/guarantees.md', () => {
  it('cites tests', () => expect(citations.length).toBeGreaterThan(40))

  it.each(citations)('$file has the test "$name"', ({ file, name }) => {
    expect(hasTest(readFileSync(join(root, file), 'utf8'), name)).toBe(true)
  })

  it('every row of a table names a test', () => {
    const rows = page.split('\n').filter((line) => line.startsWith('|') && !/^\|(?:---|\s*(?:promise|fact|fault)\s*\|)/.test(line))
    expect(rows.filter((row) => !/\.test\.tsx?` "/.test(row))).toEqual([])
  })

  it('cites constants that exist', () => {
    const constants = [...page.matchAll(/`(\w+Ms)` of `([\w/.-]+)`/g)]
    expect(constants.length).toBeGreaterThan(4)
    for (const [, name = '', file = ''] of constants) {
      const found = ['controller', 'worker'].map((each) => join(root, 'packages', each, 'src', file)).flatMap(readIfThere)
      expect(found.join('\n'), `${name} of ${file}`).toContain(`const ${name} =`)
    }
  })
})

function readIfThere(path: string): string[] {
  try {
    return [readFileSync(path, 'utf8')]
  } catch {
    return []
  }
}
