// The client commands against a scripted controller: what they ask, what they print, how they end.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { keyRoutes, loginRoutes, modelRoutes, nodeRoutes, type SettingView, systemRoutes } from '@muster/protocol'
import { createProcesses, freePort, makeTempDir, type TempDir } from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { modelView } from './model-views.ts'
import { type Result, runInProcess } from './run-in-process.ts'
import { adminKey, nodeView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

const processes = createProcesses()
let controller: ScriptedController
let dataDir: TempDir

beforeEach(async () => {
  controller = await startScriptedController()
  dataDir = await makeTempDir('cli')
  await writeFile(join(dataDir.path, 'endpoint'), `${controller.url}\n`)
  await writeFile(join(dataDir.path, 'admin.key'), `${adminKey}\n`)
})
afterEach(async () => {
  await controller[Symbol.asyncDispose]()
  await dataDir.remove()
})
afterAll(() => processes.stopAll())

/** As a user runs it. */
async function spawnMuster(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Result> {
  const run = await processes.muster(args, { env: { MUSTER_DATA_DIR: dataDir.path, ...env } })
  const { code } = await run.exited
  return { code: code ?? -1, stdout: run.stdout(), stderr: run.stderr() }
}

const muster = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Result> =>
  runInProcess(args, { MUSTER_DATA_DIR: dataDir.path, ...env })

const two = () => [
  nodeView(),
  nodeView({
    id: 'node-bbbbbbbbbbbbbbbbbbbb',
    name: 'gpu-2',
    status: 'pending',
    status_reason: 'waiting for an administrator to approve it',
  }),
]

describe('finding the server', () => {
  it('needs no arguments on the machine of the controller', async () => {
    controller.answer(nodeRoutes.list, { nodes: two() })
    expect(await muster(['nodes', 'ls'])).toMatchObject({ code: 0, stdout: expect.stringContaining('gpu-1') as string })
    expect(controller.asked[0]?.headers['authorization']).toBe(`Bearer ${adminKey}`)
  })

  it('takes another server and key from the environment, also without a data directory', async () => {
    controller.answer(nodeRoutes.list, { nodes: [] })
    const result = await muster(['nodes', 'ls'], {
      MUSTER_DATA_DIR: join(dataDir.path, 'none'),
      MUSTER_URL: controller.url,
      MUSTER_ADMIN_KEY: 'other-key',
    })
    expect(result).toMatchObject({ code: 0, stdout: '' })
    expect(controller.asked[0]?.headers['authorization']).toBe('Bearer other-key')
  })

  it('sends the key of this machine to no other one, and explains how to set one', async () => {
    const result = await muster(['nodes', 'ls', '--url', 'http://muster.invalid:8080'])
    expect(result).toMatchObject({ code: 2, stdout: '' })
    expect(result.stderr).toContain(`http://muster.invalid:8080 (--url) is not the controller of ${dataDir.path}`)
    expect(result.stderr).toContain('MUSTER_ADMIN_KEY')
    expect(result.stderr).not.toContain(adminKey)
  })

  it('takes its options before and after the name of the command', async () => {
    controller.answer(nodeRoutes.list, { nodes: [] })
    const empty = { MUSTER_DATA_DIR: join(dataDir.path, 'none') }
    for (const args of [
      ['--url', controller.url, '-o', 'json', 'nodes', 'ls'],
      ['nodes', '--url', controller.url, 'ls', '-o', 'json'],
      ['nodes', 'ls', '-o', 'json', `--url=${controller.url}`],
    ])
      expect(JSON.parse((await muster(args, empty)).stdout)).toEqual({ nodes: [] })
  })

  it('prints the URL, its origin and the command to run when nothing listens', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const result = await spawnMuster(['status', '--url', url])
    expect(result).toMatchObject({ code: 1, stdout: '' })
    expect(result.stderr).toContain(`nothing listens at ${url} (--url)`)
    expect(result.stderr).toContain('muster up')
    expect(result.stderr).not.toMatch(/\n\s+at /)
  })

  it('explains how to set a key when the server needs one, and shows none', async () => {
    controller.refuse(nodeRoutes.list, 401, { code: 'unauthorized', message: 'this key is not known' })
    const result = await muster(['nodes', 'ls'])
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('this key is not known (unauthorized)')
    expect(result.stderr).toContain('MUSTER_ADMIN_KEY')
    expect(result.stderr).not.toContain(adminKey)
  })

  it('distinguishes an answer of another program, and of another version, from an error of the controller', async () => {
    controller.reply(nodeRoutes.list, (_, response) => void response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>nginx</h1>'))
    expect((await muster(['nodes', 'ls'])).stderr).toContain('is not a Muster controller')
    controller.reply(
      nodeRoutes.list,
      (_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"nodes":[{"id":1}]}'),
    )
    expect((await muster(['nodes', 'ls'])).stderr).toContain('is not what this version expects')
  })
})

describe('nodes', () => {
  it('lists a plain table of at most 80 columns', async () => {
    controller.answer(nodeRoutes.list, { nodes: two() })
    const { stdout, stderr } = await muster(['nodes', 'ls'])
    const [heading, ...rows] = stdout.trimEnd().split('\n')
    expect(heading).toMatch(/^NAME +ID +STATUS +CAPABILITY +ACTIVE +SEEN$/)
    expect(rows).toHaveLength(2)
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(stderr).toContain('waiting for approval: gpu-2')
  })

  it('prints with -o json the answer of the API, unknown fields too, and nothing else', async () => {
    const nodes = two()
    controller.answer(nodeRoutes.list, { nodes }, { added_later: true })
    const { stdout, stderr } = await spawnMuster(['nodes', 'ls', '-o', 'json'])
    expect(JSON.parse(stdout)).toEqual({ nodes, added_later: true })
    expect(stderr).toBe('')
  })

  it('filters by status, in both formats', async () => {
    controller.answer(nodeRoutes.list, { nodes: two() })
    expect((await muster(['nodes', 'ls', '--status', 'pending'])).stdout).not.toContain('gpu-1')
    expect(JSON.parse((await muster(['nodes', 'ls', '--status', 'pending', '-o', 'json'])).stdout)).toMatchObject({
      nodes: [{ name: 'gpu-2' }],
    })
    expect(await muster(['nodes', 'ls', '--status', 'broken'])).toMatchObject({ code: 2, stdout: '' })
  })

  it('SEC29 lets no node write to the terminal by its name', async () => {
    controller.answer(nodeRoutes.list, { nodes: [nodeView({ name: 'evil\u001b[2J\u009b31m\nfake-row' })] })
    const { stdout } = await muster(['nodes', 'ls'])
    expect(stdout).toContain('evil fake-row')
    expect(stdout.split('\n')).toHaveLength(3)
    expect(stdout).toMatch(/^[\x20-\x7e\n]*$/)
  })

  it('shows one, found by its name', async () => {
    const [node = nodeView()] = two()
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(nodeRoutes.get, node)
    controller.answer(nodeRoutes.models, { replicas: [] })
    expect((await muster(['nodes', 'show', 'gpu-1'])).stdout).toMatch(/Status +healthy: receiving heartbeats/)
    expect(JSON.parse((await muster(['nodes', 'show', 'gpu-1', '-o', 'json'])).stdout)).toEqual({ ...node, replicas: [] })
  })

  it.each([
    ['approve', nodeRoutes.approve],
    ['resume', nodeRoutes.resume],
  ])('%ss the node that its name means, and says how it is now', async (name, route) => {
    const [, second = nodeView()] = two()
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(route, { ...second, status: 'draining' })
    expect(await muster(['nodes', name, 'gpu-2'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`gpu-2 (${second.id}) is draining`) as string,
    })
    expect(controller.asked.at(-1)).toMatchObject({ method: 'POST', path: `/api/nodes/${second.id}/${name}` })
  })

  it('refuses a name that two nodes have, lists their ids, and does nothing', async () => {
    controller.answer(nodeRoutes.list, { nodes: two().map((node) => ({ ...node, name: 'gpu' })) })
    const result = await spawnMuster(['nodes', 'rm', 'gpu'])
    expect(result).toMatchObject({ code: 2, stdout: '' })
    for (const node of two()) expect(result.stderr).toContain(node.id)
    expect(controller.asked.map(({ method }) => method)).toEqual(['GET'])
  })

  it('removes one, with nothing on stdout for -o json, since the API answers nothing', async () => {
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(nodeRoutes.remove, undefined)
    expect(await muster(['nodes', 'rm', 'gpu-1'])).toMatchObject({ code: 0, stdout: expect.stringContaining('is removed') as string })
    expect(await muster(['nodes', 'rm', 'gpu-1', '-o', 'json'])).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })

  it('sets and takes away labels in one request', async () => {
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(nodeRoutes.patchLabels, { labels: { rack: 'b2' } })
    expect(await muster(['nodes', 'label', 'gpu-1', 'rack=b2', 'tier-'])).toMatchObject({ code: 0, stdout: 'rack=b2\n' })
    expect(controller.asked.at(-1)).toMatchObject({ method: 'PATCH', body: { rack: 'b2', tier: null } })
  })

  it.each([
    ['80%', '80%'],
    ['12GB', '12GB'],
    ['--clear', null],
  ])('sets and clears a budget: %s', async (argument, vram_budget) => {
    const [node = nodeView()] = two()
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(nodeRoutes.putVramBudget, { ...node, vram_budget })
    controller.answer(nodeRoutes.deleteVramBudget, { ...node, vram_budget })
    expect(await muster(['nodes', 'vram-budget', 'gpu-1', argument])).toMatchObject({
      code: 0,
      stdout: `gpu-1 (${node.id}) may use ${vram_budget ?? 'all'} of its GPU memory\n`,
    })
    const asked = vram_budget === null ? { method: 'DELETE', body: undefined } : { method: 'PUT', body: { value: vram_budget } }
    expect(controller.asked.at(-1)).toMatchObject({ path: `/api/nodes/${node.id}/vram-budget`, ...asked })
  })

  it.each([[[]], [['lots']], [['120%']], [['80%', '--clear']]])('asks nobody about the budget %j', async (args) => {
    expect(await muster(['nodes', 'vram-budget', 'gpu-1', ...args])).toMatchObject({ code: 2, stdout: '' })
    expect(controller.asked).toEqual([])
  })

  it.each([
    ['1', 1, 'at most 1 replica'],
    ['--clear', null, 'any number of replicas'],
  ])('sets and clears the limit of replicas of one model: %s', async (argument, limit, runs) => {
    const [node = nodeView()] = two()
    controller.answer(nodeRoutes.list, { nodes: two() })
    controller.answer(nodeRoutes.putMaxReplicasPerModel, { ...node, max_replicas_per_model: limit })
    controller.answer(nodeRoutes.deleteMaxReplicasPerModel, { ...node, max_replicas_per_model: limit })
    expect(await muster(['nodes', 'max-replicas-per-model', 'gpu-1', argument])).toMatchObject({
      code: 0,
      stdout: `gpu-1 (${node.id}) runs ${runs} of each model\n`,
    })
    const asked = limit === null ? { method: 'DELETE', body: undefined } : { method: 'PUT', body: { value: limit } }
    expect(controller.asked.at(-1)).toMatchObject({ path: `/api/nodes/${node.id}/max-replicas-per-model`, ...asked })
  })

  it.each([[[]], [['0']], [['many']], [['1', '--clear']]])('asks nobody about the limit %j', async (args) => {
    expect(await muster(['nodes', 'max-replicas-per-model', 'gpu-1', ...args])).toMatchObject({ code: 2, stdout: '' })
    expect(controller.asked).toEqual([])
  })

  it('shows the limits of a node, and who set them', async () => {
    const node = nodeView({
      vram_budget: '80%',
      limits: { vram_budget: { value: '50%', from: 'worker' }, max_replicas_per_model: { value: 2, from: 'api' } },
    })
    controller.answer(nodeRoutes.list, { nodes: [node] })
    controller.answer(nodeRoutes.get, node)
    controller.answer(nodeRoutes.models, { replicas: [] })
    const { stdout } = await muster(['nodes', 'show', 'gpu-1'])
    expect(stdout).toMatch(/GPU budget +50% \(set at the start of the worker; an administrator set 80%\)/)
    expect(stdout).toMatch(/Per model +at most 2 \(set by an administrator\)/)
  })

  it('shows the budget of a node', async () => {
    const node = nodeView({ vram_budget: '80%' })
    controller.answer(nodeRoutes.list, { nodes: [node] })
    controller.answer(nodeRoutes.get, node)
    controller.answer(nodeRoutes.models, { replicas: [] })
    expect((await muster(['nodes', 'show', 'gpu-1'])).stdout).toMatch(/GPU budget +80%/)
  })

  it('sends no request for an invalid label', async () => {
    expect(await muster(['nodes', 'label', 'gpu-1', 'rack'])).toMatchObject({ code: 2 })
    expect(controller.asked).toEqual([])
  })
})

describe('settings', () => {
  const setting = (flag: string, over: Partial<SettingView> = {}): SettingView => ({
    ...{ flag, value: '60s', default: '60s', from: 'default', description: '', is_secret: false, is_runtime: true, pinned_by: null },
    ...over,
  })
  const answer = (...settings: SettingView[]) => ({ controller: 'http://c', settings })

  it('are listed with their origin and whether they can change', async () => {
    const pinned = setting('auto-upgrade', { from: 'MUSTER_AUTO_UPGRADE', pinned_by: 'MUSTER_AUTO_UPGRADE of http://c' })
    controller.answer(systemRoutes.settings, answer(setting('model-load-wait'), pinned, setting('port', { is_runtime: false })))
    const { stdout } = await muster(['settings', 'ls'])
    expect(stdout).toMatch(/model-load-wait +60s +default +at any time/)
    expect(stdout).toMatch(/auto-upgrade .*pinned by MUSTER_AUTO_UPGRADE of http:\/\/c/)
    expect(stdout).toMatch(/port .*at the start/)
    expect((await muster(['settings', 'ls', '--changeable'])).stdout).not.toContain('port')
  })

  it('are set and unset in one request', async () => {
    controller.answer(systemRoutes.changeSettings, answer(setting('model-load-wait', { value: '2m', from: 'an administrator' })))
    expect(await muster(['settings', 'set', '--', 'model-load-wait=2m', '--op-retry-base=1s'])).toMatchObject({
      code: 0,
      stdout: 'model-load-wait is 2m (an administrator)\n',
    })
    expect(controller.asked.at(-1)).toMatchObject({ method: 'PATCH', body: { 'model-load-wait': '2m', 'op-retry-base': '1s' } })
    await muster(['settings', 'unset', 'model-load-wait'])
    expect(controller.asked.at(-1)).toMatchObject({ method: 'PATCH', body: { 'model-load-wait': null } })
  })

  it.each([['set', 'model-load-wait'], ['set'], ['unset'], ['history', '--limit', '0']])('asks nobody: %s %s', async (...args) => {
    expect(await muster(['settings', ...args.filter((arg) => arg !== undefined)])).toMatchObject({ code: 2, stdout: '' })
    expect(controller.asked).toEqual([])
  })

  it('have a history', async () => {
    const change = { at: '2026-01-01T00:00:00.000Z', setting: 'model-load-wait', changed_by: 'key ci', before: null, after: '2m' }
    controller.answer(systemRoutes.settingChanges, { changes: [change] })
    expect((await muster(['settings', 'history'])).stdout).toMatch(/model-load-wait +default +2m +key ci/)
  })
})

describe('keys, login-link, status', () => {
  const key = { id: 'key-1', name: 'ci', scope: 'inference' as const, created_at: '2030-01-01T00:00:00Z', last_used_at: null }

  it('makes a key and shows it once', async () => {
    controller.answer(keyRoutes.create, { ...key, key: 'muster_key_x' })
    expect((await muster(['keys', 'create', '--name', 'ci', '--scope', 'inference'])).stdout).toMatch(/Key +muster_key_x/)
    expect(controller.asked.at(-1)?.body).toEqual({ name: 'ci', scope: 'inference' })
  })

  it('lists and revokes by name', async () => {
    controller.answer(keyRoutes.list, { keys: [key] })
    controller.answer(keyRoutes.remove, undefined)
    expect((await muster(['keys', 'ls'])).stdout).toMatch(/ci +key-1 +inference/)
    expect((await muster(['keys', 'rm', 'ci'])).stdout).toBe('ci (key-1) is revoked\n')
    expect(controller.asked.at(-1)).toMatchObject({ method: 'DELETE', path: '/api/keys/key-1' })
  })

  it('prints the login link alone on stdout, so that it can be passed on', async () => {
    controller.answer(loginRoutes.createLink, { url: 'http://h/login?token=t', expires_at: '2030-01-01T00:00:00Z' })
    expect(await muster(['login-link'])).toMatchObject({
      stdout: 'http://h/login?token=t\n',
      stderr: expect.stringContaining('works once') as string,
    })
  })

  it('opens the status with a sentence', async () => {
    controller.answer(systemRoutes.status, {
      version: '0.1.0',
      controllers: [
        { id: 'c-1', url: controller.url, version: '0.1.0', started_at: '2030-01-01T00:00:00Z', last_seen_at: '2030-01-01T00:00:00Z' },
      ],
      database: { version: '18.4', now: '2030-01-01T00:00:00Z' },
      bus: { kind: 'local', connected: true },
      nodes: { healthy: 4, unhealthy: 1, offline: 0 },
    })
    expect((await muster(['status'])).stdout).toMatch(/^5 nodes: 4 healthy, 1 unhealthy\.\n\nMuster/)
    const failure = { code: 'no_capacity', message: 'no node has room', at: '2030-01-01T00:00:00Z', next_retry_at: null, attempts: 2 }
    controller.answer(modelRoutes.list, {
      models: [modelView(), modelView({ name: 'b' }), modelView({ name: 'big', state: 'failed', replicas_ready: 0, failure })],
    })
    expect((await muster(['status'])).stdout).toMatch(
      /unhealthy\.\n3 models: 2 ready, 1 failed\. 2 of 6 replicas are ready\.\ncannot load big: no node has room \(no_capacity\); 2 attempts, waits for/,
    )
    expect(JSON.parse((await muster(['status', '-o', 'json'])).stdout)).toMatchObject({
      nodes: { healthy: 4 },
      models: { ready: 2, failed: 1 },
    })
  })
})

describe('streams and files', () => {
  it('ends quietly when its reader has seen enough', async () => {
    controller.answer(nodeRoutes.list, {
      nodes: Array.from({ length: 3000 }, (_, at) => nodeView({ id: `node-${at}`, name: 'x'.repeat(200) })),
    })
    const main = join(import.meta.dirname, '..', 'src', 'main.ts')
    const run = await processes.start('bash', {
      args: ['-c', `set -o pipefail; '${process.execPath}' '${main}' nodes ls | head -n 1`],
      env: { MUSTER_DATA_DIR: dataDir.path },
    })
    expect(await run.exited).toMatchObject({ code: 0 })
    expect(run.stderr()).toBe('')
    expect(run.stdout()).toMatch(/^NAME/)
  })

  it('does not take a data directory that it may not read for an empty one', async () => {
    await mkdir(join(dataDir.path, 'odd', 'endpoint'), { recursive: true })
    expect(await muster(['nodes', 'ls', '--data-dir', join(dataDir.path, 'odd')])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot read') as string,
    })
  })
})
