// `muster models` against a real controller: what both sides agree on.
import { adminKey, createProcesses, createTestDatabase, makeTempDir, startCluster, startNats } from '@muster/testkit'
import { afterAll, expect, inject, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

const yaml = `# Two models.
name: team/tiny
backend: llama
parameters: { model: tiny.gguf }
scheduling: { priority: 2 }
---
name: other
backend: llama
`

it('a model is applied, changed and scaled; what is wrong is named with its line of the file', async () => {
  await using nats = await startNats()
  await using database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  await using directory = await makeTempDir('cli')
  const cluster = await startCluster({ processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url, controllers: 1 })
  const env = { MUSTER_URL: cluster.controllers[0]?.url ?? '', MUSTER_ADMIN_KEY: adminKey }
  const muster = (...args: string[]) => runInProcess(args, env)
  const apply = (text: string, ...args: string[]) => runInProcess(['models', 'apply', '-f', '-', ...args], env, text)

  const created = await apply(yaml)
  expect(created.stdout, created.stderr).toMatch(
    /^team\/tiny created \(revision ([0-9a-f]{12})\)\nother created \(revision [0-9a-f]{12}\)\n$/,
  )
  const revision = /revision (\w+)/.exec(created.stdout)?.[1] ?? ''
  expect((await apply(yaml.replace('priority: 2', 'priority:   2'))).stdout).toMatch(/^team\/tiny unchanged .*\nother unchanged .*\n$/)
  expect((await apply(yaml.replace('priority: 2', 'priority: 3'))).stdout).toMatch(
    /^team\/tiny changed; what runs stays as it is .*\nother unchanged/,
  )

  const wrong = await apply(yaml.replace('name: other\nbackend', 'name: other\nbakend: x\nbackend'))
  expect(wrong).toMatchObject({ code: 1, stdout: expect.stringMatching(/^team\/tiny changed/) as string })
  expect(wrong.stderr).toMatch(/^error: standard input: line 8: .*bakend.*closest.*backend/)

  const one = 'name: team/tiny\nbackend: llama\ncontext_size: 512\n'
  expect(await apply(one, '--if-match', '00000000')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('(revision_conflict)') as string,
  })
  expect((await apply(one, '--if-match', revision)).stdout).toMatch(
    new RegExp(`^team/tiny changed \\(revision ${revision} is now [0-9a-f]{12}\\)\n$`),
  )

  expect((await muster('models', 'scale', 'team/tiny', '--min', '0', '--max', '3')).stdout).toBe(
    'team/tiny: 0 to 3 replicas; requests by prefix\n',
  )
  expect((await muster('models', 'ls')).stdout).toMatch(
    /^NAME .*\nother +llama +unloaded +0\/0 +[0-9a-f]{12} +-\nteam\/tiny +llama +unloaded +0\/0/,
  )
  expect((await muster('models', 'show', 'team/none')).code).toBe(1)
  expect((await muster('status')).stdout).toMatch(/^No nodes yet\.\n2 models: 2 unloaded\. 0 of 0 replicas are ready\.$/m)
  await processes.stopAll()
}, 120_000)
