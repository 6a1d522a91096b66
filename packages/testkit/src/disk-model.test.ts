import { expect, it } from 'vitest'
import { checkDisk, type FileCall } from './disk-model.ts'

const rules = { root: '/d', mayBeLost: (path: string) => path.startsWith('/d/staging/') }
const write = (path: string): FileCall => ({ do: 'write', path })
const create = (path: string): FileCall => ({ do: 'create', path })
const rename = (path: string, to: string): FileCall => ({ do: 'rename', path, to })
const sync = (path: string): FileCall[] => [
  { do: 'sync', path, id: path },
  { do: 'synced', path, id: path },
]
const promise = (path: string, holds = true): FileCall => ({ do: 'promise', name: 'p', paths: [path], holds })

const written = [create('/d/a.tmp'), write('/d/a.tmp')]

it.each<[string, readonly FileCall[], readonly string[], readonly string[]]>([
  [
    'accepts a file that is synced, renamed, and whose directory is synced then',
    [...written, ...sync('/d/a.tmp'), rename('/d/a.tmp', '/d/a'), ...sync('/d'), promise('/d/a')],
    [],
    [],
  ],
  [
    'reports a rename before the sync of the file',
    [...written, rename('/d/a.tmp', '/d/a'), ...sync('/d/a'), ...sync('/d'), promise('/d/a')],
    ['the content of /d/a.tmp is not synced when /d/a appears'],
    [],
  ],
  [
    'reports a rename while the sync of the file is under way',
    [...written, { do: 'sync', path: '/d/a.tmp', id: '1' }, rename('/d/a.tmp', '/d/a'), { do: 'synced', path: '/d/a', id: '1' }],
    ['the content of /d/a.tmp is not synced when /d/a appears'],
    [],
  ],
  [
    'reports a file that was never synced',
    [...written, rename('/d/a.tmp', '/d/a'), ...sync('/d'), promise('/d/a')],
    ['the content of /d/a.tmp is not synced when /d/a appears'],
    ['the content of /d/a'],
  ],
  [
    'reports a directory that was not synced after the rename',
    [...written, ...sync('/d/a.tmp'), ...sync('/d'), rename('/d/a.tmp', '/d/a'), promise('/d/a')],
    [],
    ['the name /d/a'],
  ],
  [
    'reports a new directory whose own name was not synced',
    [create('/d/new'), create('/d/new/a'), write('/d/new/a'), ...sync('/d/new/a'), ...sync('/d/new'), promise('/d/new/a')],
    [],
    ['the name /d/new'],
  ],
  [
    'reports a write during a sync',
    [
      create('/d/j'),
      ...sync('/d'),
      { do: 'sync', path: '/d/j', id: '1' },
      write('/d/j'),
      { do: 'synced', path: '/d/j', id: '1' },
      promise('/d/j'),
    ],
    [],
    ['the content of /d/j'],
  ],
  [
    'reports a file and a name inside a directory that is renamed',
    [create('/d/staging/t'), create('/d/staging/t/f'), write('/d/staging/t/f'), rename('/d/staging/t', '/d/t'), ...sync('/d')],
    ['the content of /d/staging/t/f is not synced when /d/t appears', 'the name /d/staging/t/f is not synced when /d/t appears'],
    [],
  ],
  [
    'reports a removal that was not synced',
    [create('/d/a'), ...sync('/d'), { do: 'remove', path: '/d/a' }, promise('/d/a')],
    [],
    ['the name /d/a'],
  ],
  ['reports a promise of content that is not there', [promise('/d/a', false)], [], ['it is not there']],
  ['leaves names alone that may be lost', [write('/d/x'), rename('/d/x', '/d/staging/x')], [], []],
])('%s', (_, calls, renames, broken) => {
  const report = checkDisk(calls, rules)
  expect(report.renames).toEqual(renames)
  expect(report.promises.get('p') ?? []).toEqual(broken)
})
