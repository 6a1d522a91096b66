// `muster models` and `muster chat` against a real controller and a real worker: what all sides agree on.
import {
  adminKey,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Result, runInProcess } from './run-in-process.ts'

const processes = createProcesses()
const held = new AsyncDisposableStack()
let env: Record<string, string>
const muster = (...args: string[]): Promise<Result> => runInProcess(args, env)
const apply = (text: string, ...args: string[]): Promise<Result> => runInProcess(['models', 'apply', '-f', '-', ...args], env, text)

beforeAll(async () => {
  const nats = held.use(await startNats())
  const database = held.use(await createTestDatabase({ serverUrl: inject('postgresUrl') }))
  const directory = held.use(await makeTempDir('cli'))
  const at = { processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url }
  const cluster = await startCluster({ ...at, controllers: 1, args: ['--auto-approve'] })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('one controller was started')
  await cluster.startWorker({ name: 'gpu-1', join: controller.url, token: joinToken })
  await waitFor(async () => (await nodesOf(controller.api)).some((node) => node.status === 'healthy'), {
    what: 'a healthy node',
  })
  env = { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: adminKey }
})
afterAll(async () => {
  await processes.stopAll()
  await held.disposeAsync()
})

const yaml = `# Two models.
name: team/tiny
backend: echo
parameters: { model: tiny.gguf }
scheduling: { priority: 2 }
---
name: other
backend: echo
`

it('a model is applied, changed and scaled; errors name the line of the file', async () => {
  const created = await apply(yaml)
  expect(created.stdout, created.stderr).toMatch(
    /^team\/tiny created \(revision ([0-9a-f]{12})\)\nother created \(revision [0-9a-f]{12}\)\n$/,
  )
  const revision = /revision (\w+)/.exec(created.stdout)?.[1] ?? ''
  expect((await apply(yaml.replace('priority: 2', 'priority:   2'))).stdout).toMatch(/^team\/tiny unchanged .*\nother unchanged .*\n$/)
  expect((await apply(yaml.replace('priority: 2', 'priority: 3'))).stdout).toMatch(
    /^team\/tiny changed; its replicas keep running .*\nother unchanged/,
  )

  const wrong = await apply(yaml.replace('name: other\nbackend', 'name: other\nbakend: x\nbackend'))
  expect(wrong).toMatchObject({ code: 1, stdout: expect.stringMatching(/^team\/tiny changed/) as string })
  expect(wrong.stderr).toMatch(/^error: standard input: line 8: .*bakend.*closest.*backend/)

  const one = 'name: team/tiny\nbackend: echo\ncontext_size: 512\n'
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
    /^NAME .*\nother +echo +unloaded +0\/0 +[0-9a-f]{12} +-\nteam\/tiny +echo +unloaded +0\/0/,
  )
  expect((await muster('models', 'show', 'team/none')).code).toBe(1)
  expect((await muster('status')).stdout).toMatch(/^1 node: 1 healthy\.\n(\d) models: \1 unloaded\. 0 of 0 replicas are ready\.$/m)
})

describe('a model without files', () => {
  it('is loaded by the first question, explained, unloaded, loaded again, and deleted', async () => {
    await apply('name: parrot\nbackend: echo\n')
    const asked = await muster('chat', 'parrot', 'say it back', '--stats')
    expect(asked, asked.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('say it back') as string })
    expect((await muster('models', 'ls')).stdout).toMatch(/^parrot +echo +ready +1\/1/m)
    expect((await muster('models', 'show', 'parrot')).stdout).toMatch(/^\S+ +gpu-1 +ready +yes +\d+ +current/m)
    expect((await muster('models', 'why', 'parrot')).stdout).toMatch(/^State +ready[^]*^gpu-1 +(?:yes|no)/m)
    expect(await muster('models', 'logs', 'parrot')).toMatchObject({ code: 0, stderr: '' })
    const json: unknown = JSON.parse((await muster('chat', 'parrot', 'again', '-o', 'json')).stdout)
    expect(json).toMatchObject({ object: 'chat.completion', choices: [{ message: { role: 'assistant' } }] })

    const unloaded = await muster('models', 'unload', 'parrot', '--wait')
    expect(unloaded, unloaded.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^unload parrot: succeeded/m) as string })
    expect((await muster('models', 'ls')).stdout).toMatch(/^parrot +echo +unloaded +0\/0/m)
    const loaded = await muster('models', 'load', 'parrot', '--wait')
    expect(loaded, loaded.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^load parrot: gpu-1: success/m) as string })
    const removed = await muster('models', 'rm', 'parrot', '--wait')
    expect(removed, removed.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^delete parrot: succeeded/m) as string })
    expect(await muster('chat', 'parrot', 'gone?')).toMatchObject({ code: 1, stdout: '' })
  })
})
