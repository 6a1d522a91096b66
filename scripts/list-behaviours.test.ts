import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from './environment.ts'
import { findCitedIds, readCitedIds, readPageIds } from './list-behaviours.ts'

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
