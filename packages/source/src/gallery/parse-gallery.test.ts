import { FleetError } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseGallery } from './parse-gallery.ts'

const refusalOf = (text: string): string => {
  try {
    parseGallery(text)
  } catch (error) {
    if (error instanceof FleetError) return `${error.failure.code} ${error.failure.retry} ${error.message}`
    throw error
  }
  return 'accepted'
}

/** The reason why the first entry is left out. */
const reasonOf = (text: string): string => parseGallery(text).leftOut[0]?.message ?? 'nothing is left out'

/** Written as LocalAI writes its index: anchors, `!!merge`, fields nobody here knows. */
const index = `---
## engines
- &engine
  name: "engine"
  alias: "engine"
  license: mit
  icon: https://example.com/icon.png
  description: |
    Two
    lines.
  urls:
    - https://example.com/engine
  tags: [text-to-text, CPU]
  capabilities:
    default: "cpu-engine"
    nvidia: "cuda12-engine"
  something_new: { a: [1, 2] }
- !!merge <<: *engine
  name: "cpu-engine"
  uri: "example.com/backends:latest-cpu-engine"
  mirrors:
    - mirror.example.com/backends:latest-cpu-engine
- !!merge <<: *engine
  name: "cuda12-engine"
  uri: "oci://example.com/backends:latest-gpu-nvidia-cuda-12-engine"
  version: 1.10
`

describe('parseGallery', () => {
  it('reads an index as LocalAI writes it', () => {
    const [meta, cpu, cuda] = parseGallery(index).entries
    expect(meta).toMatchObject({
      name: 'engine',
      alias: 'engine',
      uri: '',
      capabilities: { default: 'cpu-engine', nvidia: 'cuda12-engine' },
      description: 'Two\nlines.\n',
      tags: ['text-to-text', 'CPU'],
    })
    expect(cpu).toMatchObject({
      name: 'cpu-engine',
      license: 'mit',
      uri: 'example.com/backends:latest-cpu-engine',
      mirrors: ['mirror.example.com/backends:latest-cpu-engine'],
    })
    expect(cuda?.version, 'as written, not as a number').toBe('1.10')
    expect(meta).not.toHaveProperty('something_new')
  })

  it.each([
    ['its own key wins over what it merges', '- &a {name: a, uri: h/a:1, version: "1"}\n- {version: "2", <<: *a, name: b}', 'h/a:1', '2'],
    [
      'the first of several merged wins',
      '- &a {name: a, uri: h/a:1, version: "1"}\n- &b {name: b, uri: h/b:1, version: "2"}\n- {<<: [*b, *a], name: c}',
      'h/b:1',
      '2',
    ],
  ])('follows merge keys: %s', (_, text, uri, version) => {
    expect(parseGallery(text).entries.at(-1)).toMatchObject({ uri, version })
  })

  it('reads an index of ten thousand entries that all share one anchor', () => {
    const entries = Array.from({ length: 9_999 }, (_, i) => `- !!merge <<: *a\n  name: b${i}\n`).join('')
    expect(parseGallery(`- &a\n  name: a\n  uri: h/a:1\n  tags: [x, y]\n${entries}`).entries).toHaveLength(10_000)
  }, 20_000)

  it('knows no capability that every object has', () => {
    const {
      entries: [entry],
    } = parseGallery('- {name: a, capabilities: {__proto__: b, constructor: c}}')
    expect(Object.entries(entry?.capabilities ?? {})).toEqual([['constructor', 'c']])
  })

  it('keeps files for galleries of the machine itself', () => {
    const text = '- {name: a, uri: "file:///opt/a"}'
    expect(parseGallery(text, { origin: 'local' })).toMatchObject({ entries: [{ uri: 'file:///opt/a' }], leftOutCount: 0 })
    expect(reasonOf(text)).toContain('only a gallery on the machine itself')
  })
})

const bomb = (levels: number, line: (level: number) => string): string =>
  Array.from({ length: levels }, (_, level) => line(level)).join('\n')
const nine = (text: string): string => Array.from({ length: 9 }, () => text).join(', ')

describe('H19 a hostile gallery is refused, with the reason', () => {
  it.each([
    ['an alias bomb', `- &l0 {name: a, uri: h/a:1}\n${bomb(12, (n) => `- &l${n + 1} [${nine(`*l${n}`)}]`)}`, 'aliases expand to more than'],
    [
      'a merge-key bomb',
      `- &m0 {name: a, uri: h/a:1}\n${bomb(12, (n) => `- &m${n + 1} {<<: [${nine(`*m${n}`)}]}`)}`,
      'aliases expand to more than',
    ],
    ['50 MB', `- {name: a, description: "${'x'.repeat(50_000_000)}"}`, 'at most 8388608 are read'],
    ['several documents', '- {name: a, uri: h/a:1}\n---\n- {name: b, uri: h/b:1}', 'multiple documents'],
    ['a mapping', 'name: a', 'is a list of backends'],
    ['nothing', '', 'is a list of backends'],
    ['broken YAML', '- {name: a', 'line 1'],
    ['deep nesting', `- ${'['.repeat(20_000)}`, 'nested'],
    ['10,001 entries', '- {name: a, uri: h/a:1}\n'.repeat(10_001), 'at most 10000'],
  ])('%s', (_, text, reason) => {
    const refusal = refusalOf(text)
    expect(refusal).toMatch(/^invalid never cannot read the gallery: /)
    expect(refusal).toContain(reason)
    expect(refusal.length).toBeLessThan(1000)
  })
})

describe('H19 a hostile entry is left out, with the reason', () => {
  it.each([
    ['a function', '- !!js/function "function () {}"', 'Unresolved tag'],
    ['a regular expression of YAML 1.1 JavaScript', '- {name: !!js/regexp /a/, uri: h/a:1}', 'Unresolved tag'],
    ['an own tag', '- !python/object:os.system {name: a}', 'Unresolved tag'],
    ['binary', '- {name: !!binary aGk=, uri: h/a:1}', 'Unresolved tag'],
    ['a key twice', '- name: a\n  uri: h/a:1\n  uri: h/b:1', 'line 3: duplicate key "uri"'],
    ['a key twice behind an escape', '- {name: a, "uri": h/a:1, "\\x75ri": h/b:1}', 'duplicate key "uri"'],
    ['an anchor that contains itself', '- &a [*a]', '*a contains itself'],
    ['an anchor that merges itself', '- &a {name: a, <<: *a}', '*a contains itself'],
    ['an alias of nothing', '- *a', '*a is not defined before'],
    ['a merge of a list', '- {<<: [1], name: a, uri: h/a:1}', 'merge key'],
    ['nesting that is closed again', `- ${'['.repeat(50)}${']'.repeat(50)}`, 'nested deeper than 16'],
    ['a path as a name', '- {name: ../../etc, uri: h/a:1}', 'name: a backend name'],
    ['no name', '- {uri: h/a:1}', 'name'],
    ['a path as a concrete name', '- {name: a, capabilities: {default: ../b}}', 'a backend name'],
    ['a list as a uri', '- {name: a, uri: [h/a:1]}', 'uri'],
    ['a file of the node', '- {name: a, uri: "file:///etc"}', 'names a file of the node'],
    ['a file of the node as a mirror', '- {name: a, uri: h/a:1, mirrors: ["FILE:///etc"]}', 'names a file of the node'],
    ['a built-in backend', '- {name: a, uri: "builtin://echo@sha256:00"}', 'built-in backend'],
    ['another scheme', '- {name: a, uri: "gopher://h/a"}', 'unsupported source'],
    ['a line break in a uri', '- {name: a, uri: "h/a:1\\r\\nHost: x"}', 'no source has'],
    ['a hash of another kind', '- {name: a, uri: "https://h/a.tar.gz", sha256: "../x"}', 'a sha256 is'],
    ['65 mirrors', `- {name: a, uri: h/a:1, mirrors: [${'h/a:1, '.repeat(65)}]}`, 'mirrors'],
  ])('%s', (_, text, reason) => {
    const { entries, leftOut, leftOutCount } = parseGallery(`${text}\n- {name: sound, uri: "h/sound:1"}`)
    expect(entries.map(({ name }) => name)).toEqual(['sound'])
    expect(leftOutCount).toBe(1)
    expect(leftOut).toMatchObject([{ index: 0, message: expect.stringContaining(reason) as string }])
    expect(leftOut[0]?.message.length).toBeLessThanOrEqual(500)
  })
})

describe('entries that are left out', () => {
  it('are named by their position and their name', () => {
    const { entries, leftOut } = parseGallery(
      '- {name: a, uri: "h/a:1"}\n- {name: b, uri: "gopher://h/b"}\n- name: c\n  name: c\n- just text\n- {name: d, uri: "h/d:1"}',
    )
    expect(entries.map(({ name }) => name)).toEqual(['a', 'd'])
    expect(leftOut.map((each) => [each.index, each.name])).toEqual([
      [1, 'b'],
      [2, 'c'],
      [3, ''],
    ])
  })

  it('take entries along that merge them, with the reason', () => {
    const { entries, leftOut } = parseGallery('- &a\n  name: a\n  uri: h/a:1\n  uri: h/a:2\n- {<<: *a, name: b}\n- {name: c, uri: "h/c:1"}')
    expect(entries.map(({ name }) => name)).toEqual(['c'])
    expect(leftOut[1]).toMatchObject({
      index: 1,
      name: 'b',
      message: expect.stringContaining('*a is part of an entry that cannot be read') as string,
    })
  })

  it('are counted exactly and named up to a limit', () => {
    const { entries, leftOut, leftOutCount } = parseGallery('- {uri: "h/a:1"}\n'.repeat(1_000))
    expect([entries.length, leftOut.length, leftOutCount]).toEqual([0, 200, 1_000])
  })

  it('include a second entry of one name: the first counts', () => {
    const { entries, leftOut } = parseGallery('- {name: a, uri: "h/a:1"}\n- {name: a, uri: "h/a:2"}')
    expect(entries).toMatchObject([{ uri: 'h/a:1' }])
    expect(leftOut).toMatchObject([{ index: 1, name: 'a', message: expect.stringContaining('same name') as string }])
  })
})

describe('H19 the cost of a hostile gallery is bounded', () => {
  it('in a time that grows with its length alone: duplicate keys are looked for among 60,000', () => {
    const keys = Array.from({ length: 60_000 }, (_, i) => `  k${i}: 1\n`).join('')
    const before = process.cpuUsage()
    expect(reasonOf(`- name: a\n${keys}  k1: 2\n`)).toContain('duplicate key "k1"')
    expect(process.cpuUsage(before).user / 1e6, 'CPU seconds').toBeLessThan(15)
  })

  it('whatever the text is, there are entries or a refusal', () => {
    const piece = fc.constantFrom(
      '- ',
      'name: a',
      'uri: h/a:1',
      '\n',
      '  ',
      '&a ',
      '*a',
      '<<: ',
      '[',
      ']',
      '{',
      '}',
      '!!merge ',
      '"',
      ': ',
      '|',
      '?',
      '#',
      '---',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        expect(['accepted', 'invalid']).toContain(refusalOf(pieces.join('')).split(' ')[0])
      }),
      { numRuns: 300 },
    )
  }, 20_000)
})
