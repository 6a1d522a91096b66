import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { makeDirectory } from './files.ts'

let base: string
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'muster-make-directory-'))
})
afterEach(() => rm(base, { recursive: true }))

it.each([
  ['an absolute path', (path: string) => path],
  ['a relative path', (path: string) => relative(process.cwd(), path)],
  ['a path that ends in a slash', (path: string) => `${path}/`],
])('makes what is missing of %s, and leaves what is there', async (_, spelled) => {
  const path = join(base, 'a', 'b')
  await makeDirectory(spelled(path), { mode: 0o700 })
  for (const made of [join(base, 'a'), path]) expect((await stat(made)).mode & 0o777).toBe(0o700)
  await makeDirectory(spelled(path), { mode: 0o755 })
  expect((await stat(path)).mode & 0o777).toBe(0o700)
})
