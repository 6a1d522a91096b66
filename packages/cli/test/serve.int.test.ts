// How the serving commands refuse to start (one sentence, the right exit code, no stack), and how they
// end. What they do in between is tested with the real cluster.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeAgentRoutes } from '@muster/protocol'
import { createProcesses, makeTempDir, type TempDir } from '@muster/testkit'
import { runInProcess } from './run-in-process.ts'
import { startScriptedController } from './scripted-controller.ts'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'

const processes = createProcesses()
let dataDir: TempDir
beforeEach(async () => {
  dataDir = await makeTempDir('serve')
})
afterEach(() => dataDir.remove())
afterAll(() => processes.stopAll())

async function muster(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { code, stdout, stderr } = await runInProcess(args, { MUSTER_DATA_DIR: dataDir.path, ...env })
  expect(stdout).toBe('')
  expect(stderr).not.toMatch(/\n\s+at /)
  return { code, stderr }
}

describe('a start that is refused', () => {
  it.each<[string, string[], Record<string, string>, RegExp]>([
    ['S2.3 a duration that is none', ['up', '--node-timeout', 'soon'], {}, /--node-timeout .*not a duration/],
    [
      'S2.4 a negative duration from the environment',
      ['up'],
      { MUSTER_NODE_TIMEOUT: '-5s' },
      /--node-timeout \(from MUSTER_NODE_TIMEOUT\).*negative/,
    ],
    ['settings that contradict each other', ['up', '--node-timeout', '1s'], {}, /--node-timeout must be at least twice/],
    [
      'a public address without a port of its own',
      ['up', '--port', '0', '--public-url', 'http://h'],
      {},
      /--public-url needs a fixed port/,
    ],
    ['an unknown flag', ['up', '--prot', '1'], {}, /Did you mean --port\?/],
    ['a controller without a database', ['controller', '--nats-url', 'nats://127.0.0.1:1'], {}, /--database-url is missing/],
    ['a controller without a bus', ['controller'], { MUSTER_DATABASE_URL: 'postgres://db/x' }, /--nats-url is missing/],
    ['SEC26 a secret as a flag', ['up', '--admin-key', 'canary-canary-canary'], {}, /MUSTER_ADMIN_KEY_FILE/],
    ['a configuration file that is not there', ['up', '--config', '/nowhere/muster.yaml'], {}, /cannot read the configuration file/],
    ['a join without its URL', ['join'], {}, /missing required argument 'url'/],
    ['a join at something that is not a URL', ['join', 'controller'], {}, /--join .*not the URL of a controller/],
  ])('%s is wrong usage (2)', async (_, args, env, message) => {
    const { code, stderr } = await muster(args, env)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('canary')
    expect(code).toBe(2)
  })

  it('names file, line and closest key of a configuration that has an unknown one; keys of other commands may stand in it', async () => {
    await writeFile(join(dataDir.path, 'muster.yaml'), 'labels: { rack: b2 }\nlog-level: warn\nnode-timeuot: 20s\n')
    const { code, stderr } = await muster(['up'])
    expect(stderr).toContain(`${join(dataDir.path, 'muster.yaml')}:3: unknown key "node-timeuot"; the closest known key is node-timeout`)
    expect(code).toBe(2)
  })

  it.each(['up', 'controller', 'worker', 'join http://127.0.0.1:1'])('%s takes a file with keys of every command', async (command) => {
    const keys = ['log-level: warn', 'log-format: json', 'workers: 2', 'host: 127.0.0.1', 'labels: { rack: b2 }', 'name: gpu-1']
    await writeFile(join(dataDir.path, 'muster.yaml'), [...keys, 'wrokers: 3'].join('\n'))
    const { code, stderr } = await muster(command.split(' '))
    expect(stderr).toContain('muster.yaml:7: unknown key "wrokers"; the closest known key is workers')
    expect(code).toBe(2)
  })

  it('a worker without a controller prints the required settings', async () => {
    const { code, stderr } = await muster(['worker'])
    expect(stderr).toMatch(/--join/)
    expect(code).toBe(1)
  })

  it('a data directory that is none fails in one sentence', async () => {
    await writeFile(join(dataDir.path, 'file'), '')
    const { code, stderr } = await muster(['up', '--data-dir', join(dataDir.path, 'file')])
    expect(stderr).toMatch(/^error: cannot use .*\/file as the data directory/)
    expect(code).toBe(1)
  })
})

describe('a worker that is refused for good', () => {
  it('prints the reason once, does not promise a retry, and ends with 1', async () => {
    await using controller = await startScriptedController()
    controller.refuse(nodeAgentRoutes.register, 401, { code: 'wrong_token', message: 'this token is not known' })
    const run = await processes.muster(['join', controller.url, '--token', 'canary-token'], { env: { MUSTER_DATA_DIR: dataDir.path } })
    expect(await run.exited).toEqual({ code: 1, signal: null })
    expect(run.output().trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^error: .* does not know this worker, and the join token is not accepted \(wrong_token\)/),
    ])
  })
})

describe('a worker that waits for its controller', () => {
  const start = () =>
    processes.muster(['join', 'http://127.0.0.1:1', '--token', 'canary-token'], { env: { MUSTER_DATA_DIR: dataDir.path } })

  it.each(['SIGTERM', 'SIGINT'] as const)('ends with 0 on %s, with nothing on stdout and no token in its log', async (signal) => {
    const run = await start()
    await run.waitForOutput(/127\.0\.0\.1:1/)
    run.kill(signal)
    expect(await run.exited).toEqual({ code: 0, signal: null })
    expect(run.stdout()).toBe('')
    expect(run.stderr()).toContain('stopping')
    expect(run.output()).not.toContain('canary')
  })

  it('locks its data directory, and a second process gets an error that names the first', async () => {
    const first = await start()
    await first.waitForOutput(/127\.0\.0\.1:1/)
    const second = await start()
    expect(await second.exited).toEqual({ code: 1, signal: null })
    expect(second.stderr()).toMatch(new RegExp(`^error: .*in use by process ${first.pid}`))
    await first.stop()
  })
})
