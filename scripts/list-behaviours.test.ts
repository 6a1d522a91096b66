import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root } from './environment.ts'
import { compareProofs, findCitedIds, readCitedIds, readPageIds, readProofs } from './list-behaviours.ts'

const page = readFileSync(join(root, 'docs', 'behaviours.md'), 'utf8')

it('the page explains every id that a test name cites, once, and no other', () => {
  const ids = readPageIds(page)
  expect(ids.toSorted()).toEqual([...new Set(ids)].toSorted())
  expect(ids.toSorted()).toEqual([...findCitedIds().keys()].toSorted())
})

it('the page names files and folders that exist', () => {
  const paths = [...page.matchAll(/`((?:packages|tests|scripts)\/[^`]*)`/g)].map(([, path = '']) => path)
  expect(paths.length).toBeGreaterThan(40)
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

it.each([
  ["it('S2.5 S2.6 the request times out', …)", ['S2.5', 'S2.6']],
  ["['a backend that I18 cuts the connection', …]", ['I18']],
  ["const port = 'B1'; // E7", []],
])('in %s', (source, ids) => expect([...readCitedIds(source)]).toEqual(ids))

it.each([
  ["it('S2.5 S2.6 the request times out', …)", ['S2.5 | the request times out', 'S2.6 | the request times out']],
  ["['a backend that I18 cuts the connection', …]", ['I18 | a backend that I18 cuts the connection']],
  ["['A1', 'before the commit', 0],", ['A1 | before the commit']],
  ["['A1', 0],", ['A1 | ']],
  ["it('has no id', …)", []],
])('the proofs in %s', (source, proofs) => expect(readProofs(source)).toEqual(proofs))

describe('the list of proofs', () => {
  const [kept, lost, renamed] = ['C15 | messages are counted', 'C16 | a flood hides nobody', 'C16 | a flood hides no node']
  const tree = { found: [kept], listed: [kept], listedBefore: [kept], removals: [] }

  it('equals the names of the tests', () => expect(compareProofs(tree)).toEqual({ list: [kept], gone: [], problems: [] }))

  it('needs a new name, and gets it in order', () => {
    const { list, problems } = compareProofs({ ...tree, found: [lost, 'C9 | no responder', kept] })
    expect(problems).toEqual([expect.stringMatching(/C16 .*: missing in .*--write/), expect.stringMatching(/C9 .*: missing in /)])
    expect(list).toEqual(['C9 | no responder', kept, lost])
  })

  it('keeps a name that is gone without a reason, and reports it', () => {
    const { list, gone, problems } = compareProofs({ ...tree, listed: [kept, lost] })
    expect(problems).toEqual([expect.stringMatching(/"C16 \| a flood hides nobody": no test has this name any more; restore .*--because/)])
    expect({ list, gone }).toEqual({ list: [kept, lost], gone: [lost] })
  })

  it('is not replaced by an older list that lacks the name, too', () => {
    const { list, problems } = compareProofs({ ...tree, listedBefore: [kept, lost] })
    expect(problems).toHaveLength(1)
    expect(list).toEqual([kept, lost])
  })

  it('loses a name that is gone for a reason', () => {
    const removals = [`${lost} | the bus has no inbox any more`]
    for (const listed of [[kept, lost], [kept]])
      expect(compareProofs({ ...tree, listed, listedBefore: [kept, lost], removals })).toEqual({ list: [kept], gone: [], problems: [] })
  })

  it.each([[lost], [`${lost} |`], [`${lost} | `]])('takes "%s" for no reason', (removal) => {
    const { problems } = compareProofs({ ...tree, listed: [kept, lost], removals: [removal] })
    expect(problems).toContainEqual(expect.stringContaining('no test has this name any more'))
    expect(problems).toContainEqual(expect.stringContaining('no reason in'))
  })

  it('names the new test beside the old one when a test is renamed, and needs a reason for it', () => {
    const tests = { ...tree, found: [kept, renamed], listed: [kept, lost] }
    expect(compareProofs(tests).problems).toContainEqual(expect.stringContaining(`(new with this id: "${renamed}")`))
    const { list, problems } = compareProofs({
      ...tests,
      listed: [kept, renamed],
      listedBefore: [kept, lost],
      removals: [`${lost} | renamed`],
    })
    expect({ list, problems }).toEqual({ list: [kept, renamed], problems: [] })
  })

  it('refuses a reason for the removal of a test that is there', () => {
    const { problems } = compareProofs({ ...tree, removals: [`${kept} | not needed`] })
    expect(problems).toEqual([expect.stringContaining('a test has this name; delete it from')])
  })
})
