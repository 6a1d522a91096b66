import { statfs } from 'node:fs/promises'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { syncFileSystem } from './sync.ts'

const never = new AbortController().signal

it('returns false for a file system that it does not trust', async () => {
  expect(await syncFileSystem('/proc', never)).toBe(false)
})

it('syncs a trusted file system', async () => {
  await using directory = await makeTempDir('sync')
  const isDisk = [0xef53, 0x58465342, 0x9123683e, 0xf2f52010].includes((await statfs(directory.path)).type)
  expect(await syncFileSystem(directory.path, never)).toBe(isDisk)
})

it('W10 throws when cancelled', async () => {
  await using directory = await makeTempDir('sync')
  const reason = new Error('not wanted any more')
  const isDisk = await syncFileSystem(directory.path, never)
  const outcome = await syncFileSystem(directory.path, AbortSignal.abort(reason)).catch((error: unknown) => error)
  expect(outcome).toBe(isDisk ? reason : false)
})
