// `muster nats-config` makes a server that works: a real one, with a real controller on it.
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createProcesses, createTestDatabase, makeTempDir, startCluster, startNats } from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

it('lets the user of nats-server read the configuration, whatever the umask is, and only the owner the seed', async () => {
  await using directory = await makeTempDir('nats')
  const out = join(directory.path, 'etc', 'muster')
  const before = process.umask(0o077)
  const made = await runInProcess(['nats-config', '--out', out, '-o', 'json'], {}).finally(() => process.umask(before))
  const { config, seed } = JSON.parse(made.stdout) as { config: string; seed: string }
  const modes = await Promise.all([join(directory.path, 'etc'), out, config, seed].map(async (path) => (await stat(path)).mode & 0o777))
  expect(modes).toEqual([0o755, 0o755, 0o644, 0o600])
})

it('leaves an existing directory unchanged', async () => {
  await using directory = await makeTempDir('nats')
  await chmod(directory.path, 0o700)
  expect((await runInProcess(['nats-config', '--out', directory.path], {})).code).toBe(0)
  expect((await stat(directory.path)).mode & 0o777).toBe(0o700)
})

it('prints the reason and the remedy when it cannot write there', async () => {
  await using directory = await makeTempDir('nats')
  await writeFile(join(directory.path, 'file'), '')
  const { code, stderr } = await runInProcess(['nats-config', '--out', join(directory.path, 'file', 'below')], {})
  expect(stderr).toMatch(
    /^error: cannot write to .*\/file\/below: ENOTDIR.*\nrun it as a user that may write there, or name another directory with --out\n$/,
  )
  expect(code).toBe(1)
})

it('writes a configuration and a seed on which a cluster runs, and replaces neither', async () => {
  await using directory = await makeTempDir('nats')
  const made = await runInProcess(['nats-config', '--out', directory.path, '-o', 'json'], {})
  expect(made.code).toBe(0)
  const { config, seed } = JSON.parse(made.stdout) as { config: string; seed: string }
  expect((await stat(seed)).mode & 0o777).toBe(0o600)
  expect(await readFile(seed, 'utf8')).toMatch(/^SA[A-Z2-7]{56}\n$/)

  const again = await runInProcess(['nats-config', '--out', directory.path], {})
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('exists and is not replaced') as string })

  await using nats = await startNats({ args: ['-c', config] })
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const cluster = await startCluster({
    processes,
    directory: join(directory.path),
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 1,
    env: { MUSTER_NATS_ACCOUNT_SEED_FILE: seed },
  })
  expect((await cluster.controllers[0]?.api.get('/readyz'))?.status).toBe(200)
  await processes.stopAll()
})
