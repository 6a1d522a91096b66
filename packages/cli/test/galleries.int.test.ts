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
  await writeFile(file, '- {name: a, uri: "h/a:1"}\n- {name: b, uri: "gopher://h"}')
  expect(await muster('add', 'localai', href)).toMatchObject({
    code: 0,
    stdout: `localai offers 1 backend from ${href}; 1 entry cannot be read and is left out\n`,
  })
  expect(await muster('add', 'models', 'file:///nothing/models.yaml', '--kind', 'model')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('models was added, and cannot be read now') as string,
  })

  const { stdout, stderr } = await muster('ls')
  expect(stdout.split('\n').map((line) => line.split(/  +/).slice(0, 5).join(' '))).toEqual([
    'NAME KIND FROM ENTRIES LEFT OUT',
    expect.stringMatching(/^builtin backend builtin \d+ 0$/),
    'localai backend api 1 1',
    'models model api - -',
    '',
  ])
  expect(stderr).toContain(`muster galleries check ${href} --kind backend`)
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

it('checks a gallery on this machine, without a controller', async () => {
  await using directory = await makeTempDir('cli')
  const check = (...args: string[]) => runInProcess(['galleries', 'check', ...args], { MUSTER_DATA_DIR: directory.path })
  const [models, backends] = [join(directory.path, 'models.yaml'), join(directory.path, 'backends.yaml')]
  await writeFile(join(directory.path, 'chat.yaml'), 'config_file: "backend: llama-cpp"')
  await writeFile(
    models,
    `
- { name: one, url: "github:o/r/gallery/chat.yaml@master", overrides: { parameters: { model: a.gguf } } }
- { name: two, url: "github:o/r/gallery/chat.yaml@master", overrides: { backend: "no name" } }
- { name: three, overrides: [] }
`,
  )
  await writeFile(
    backends,
    '- { name: engine, capabilities: { default: cpu-engine, nvidia: cuda-engine } }\n- { name: engine, uri: "h/e:1" }',
  )
  const text = await check(models)
  expect(text).toMatchObject({ code: 0, stderr: '' })
  expect(text.stdout).toMatch(/^Entries +2\nLeft out +1\nValid +1\nRefused +1\n/)
  expect(text.stdout).toMatch(/^llama-cpp +1$/m)
  expect(text.stdout).toMatch(/^two +backend: /m)
  expect(text.stdout).toMatch(/^3 +three +overrides: expected a mapping$/m)
  expect(JSON.parse((await check(models, '-o', 'json')).stdout)).toMatchObject({
    ...{ kind: 'model', entries: 2, left_out: 1, valid: 1, refused: [{ name: 'two' }] },
    left_out_entries: [{ index: 2, name: 'three' }],
    backends: [{ backend: 'llama-cpp', models: 1 }],
  })
  const engines = await check(backends)
  expect(engines.stdout).toMatch(/^engine +cpu-engine \(default, nvidia-cuda-12, .*\); cuda-engine \(nvidia\)$/m)
  expect(JSON.parse((await check(backends, '-o', 'json')).stdout)).toMatchObject({
    metas: [{ name: 'engine', channel: 'release', builds: { default: 'cpu-engine', nvidia: 'cuda-engine', amd: 'cpu-engine' } }],
  })
  expect(await check(join(directory.path, 'gone.yaml'))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('there is no file') as string,
  })
  await writeFile(models, 'name: [')
  expect(await check(models)).toMatchObject({ code: 1, stderr: expect.stringContaining('line 1') as string })
})
