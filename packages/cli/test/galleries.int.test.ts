// `muster galleries` against a real controller.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { adminKey, createTestDatabase, makeTempDir, startTestController } from '@muster/testkit'
import { expect, inject, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

it('lists, adds and removes galleries', async () => {
  await using directory = await makeTempDir('cli')
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  await using cluster = await startTestController({ directory: directory.path, databaseUrl: database.url })
  const muster = (...args: string[]) =>
    runInProcess(['galleries', ...args], { MUSTER_URL: cluster.url, MUSTER_ADMIN_KEY: adminKey, MUSTER_DATA_DIR: directory.path })

  const file = join(directory.path, 'index.yaml')
  const { href } = pathToFileURL(file)
  expect(await muster('add', 'localai', href)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^localai was added, and cannot be read now: .*ENOENT.*\n$/) as string,
  })
  await writeFile(file, '- {name: a, uri: "h/a:1"}')
  expect(await muster('add', 'localai', href)).toMatchObject({ code: 0, stdout: `localai offers backends from ${href}\n` })
  expect(await muster('add', 'models', 'file:///nothing/models.yaml', '--kind', 'model')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('models was added, and cannot be read now') as string,
  })

  const { stdout } = await muster('ls')
  expect(stdout.split('\n').map((line) => line.split(/ +/).slice(0, 3).join(' '))).toEqual([
    'NAME KIND FROM',
    'builtin backend builtin',
    'localai backend api',
    'models model api',
    '',
  ])
  expect(await muster('rm', 'localai')).toMatchObject({ code: 0, stdout: 'localai is removed\n' })
  expect(await muster('rm', 'localai')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('gallery localai does not exist') as string,
  })
  expect(await muster('rm', 'builtin')).toMatchObject({ code: 1, stderr: expect.stringContaining('comes with Muster') as string })
  expect(await muster('add', '../x', 'https://example.com')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('gallery name') as string,
  })
  expect(await muster('add', 'x', 'ftp://example.com')).toMatchObject({ code: 2, stderr: expect.stringContaining('https://') as string })
  const json = JSON.parse((await muster('ls', '-o', 'json')).stdout) as { galleries: unknown[] }
  expect(json.galleries).toHaveLength(2)
})
