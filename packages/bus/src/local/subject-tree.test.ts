import { describe, expect, it } from 'vitest'
import { createSubjectTree } from './subject-tree.ts'

describe('createSubjectTree', () => {
  it.each([
    ['a.b', 'a.b', true],
    ['a.*', 'a.b', true],
    ['*.b', 'a.b', true],
    ['*.*', 'a.b', true],
    ['a.*', 'a', false],
    ['a.*', 'a.b.c', false],
    ['a.b', 'a.c', false],
    ['a', 'a.b', false],
    ['a.*', 'b.b', false],
    ['a.*', 'a.*', true],
  ])('%s against %s: %s', (pattern, subject, isMatch) => {
    const tree = createSubjectTree<string>()
    tree.add(pattern, 'item')
    expect(tree.match(subject)).toEqual(isMatch ? ['item'] : [])
  })

  it('finds each listener once, and those taken out not at all', () => {
    const tree = createSubjectTree<string>()
    const removeExact = tree.add('nodes.n-1.heartbeat', 'exact')
    tree.add('nodes.*.heartbeat', 'any')
    tree.add('nodes.*.*', 'all')
    expect(tree.match('nodes.n-1.heartbeat').toSorted()).toEqual(['all', 'any', 'exact'])
    removeExact()
    removeExact()
    expect(tree.match('nodes.n-1.heartbeat').toSorted()).toEqual(['all', 'any'])
  })
})
