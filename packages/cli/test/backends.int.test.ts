// `muster backends …` and `muster ops …` against a scripted controller: what they ask, and what they print.
import { backendRoutes, OperationId, operationRoutes, NodeId, nodeRoutes, BackendView, OfferedBackend } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Result, runInProcess } from './run-in-process.ts'
import { nodeView, operationNode, operationView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
const id = OperationId.parse('op-1')
const digest = `sha256:${'ab'.repeat(32)}`
beforeEach(async () => {
  controller = await startScriptedController()
  controller.answer(nodeRoutes.list, {
    nodes: [
      nodeView(),
      nodeView({ id: 'node-b', name: 'gpu-2' }),
      nodeView({ id: 'node-c', name: 'twin' }),
      nodeView({ id: 'node-d', name: 'twin' }),
    ],
  })
  for (const route of [backendRoutes.install, backendRoutes.upgrade, backendRoutes.remove]) controller.answer(route, { operation_id: id })
  controller.answer(operationRoutes.get, operationView({ state: 'succeeded' }))
})
afterEach(() => controller[Symbol.asyncDispose]())

const muster = (...args: string[]): Promise<Result> => runInProcess(args, { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const changes = () => controller.asked.filter(({ method }) => method !== 'GET')
const backend = (some: object = {}) =>
  BackendView.parse({
    name: 'llama',
    is_system: false,
    is_meta: true,
    metadata: { name: 'cuda12-llama', installed_at: '2030-01-01T00:00:00Z', gallery_url: '', version: '1.4', uri: '', digest },
    nodes: [
      {
        node_id: 'node-b',
        node_name: 'gpu-2',
        node_status: 'offline',
        version: '1.3',
        digest,
        uri: '',
        installed_at: '2030-01-01T00:00:00Z',
      },
      {
        node_id: 'node-c',
        node_name: 'twin',
        node_status: 'healthy',
        version: '1.4',
        digest,
        uri: '',
        installed_at: '2030-01-01T00:00:00Z',
      },
    ],
    upgrade_available: true,
    drift: true,
    ...some,
  })

describe('backends install', () => {
  it.each([
    [['llama'], { backend: 'llama' }],
    [['localai@llama'], { backend: 'localai@llama' }],
    [
      ['llama', '--node', 'gpu-1', '--node', 'node-b', '--node', 'gpu-2'],
      { backend: 'llama', nodes: ['node-aaaaaaaaaaaaaaaaaaaa', 'node-b'] },
    ],
    [['llama', '--selector', 'rack=a,rack=b,tier=*'], { backend: 'llama', selector: { rack: ['a', 'b'], tier: '*' } }],
    [['--wait', 'llama', '--digest', digest], { backend: 'llama', digest }],
    [['llama', '--version', '1.4'], { backend: 'llama', version: '1.4' }],
    [['--uri', 'oci://r/e:1', '--name', 'engine', '--alias', 'e'], { uri: 'oci://r/e:1', name: 'engine', alias: 'e' }],
  ])('%j asks for what is meant', async (args, body) => {
    expect(await muster('backends', 'install', ...args)).toMatchObject({ code: 0 })
    expect(changes()).toMatchObject([{ method: 'POST', path: '/api/backends/install' }])
    expect(changes()[0]?.body).toEqual(body)
  })

  it.each([
    ['install', backendRoutes.install],
    ['rm', backendRoutes.remove],
    ['upgrade', backendRoutes.upgrade],
  ])(
    '(and rm, upgrade) repeats itself after a broken connection, with the same key, so that it is asked once: %s',
    async (command, route) => {
      let isBroken = true
      controller.reply(route, (_, response) => {
        if (isBroken) response.destroy()
        else response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify({ operation_id: 'op-1' }))
        isBroken = false
      })
      expect(await muster('backends', command, 'llama')).toMatchObject({ code: 0 })
      const keys = changes().map(({ headers }) => headers['idempotency-key'])
      expect(keys).toHaveLength(2)
      expect(keys[0]).toMatch(/^\w{16,}$/)
      expect(keys[1]).toBe(keys[0])
    },
  )

  it('shows the effect with --dry-run', async () => {
    controller.answer(
      backendRoutes.install,
      operationView({ state: 'running', nodes: [operationNode({ status: 'skipped', phase: null, message: 'nothing for it' })] }),
    )
    const { code, stdout, stderr } = await muster('backends', 'install', 'llama', '--dry-run')
    expect(code).toBe(0)
    expect(changes()[0]?.body).toEqual({ backend: 'llama', dry_run: true })
    expect(stdout).toMatch(/gpu-1 +skipped .*nothing for it/)
    expect(stderr).toContain('dry run: nothing was started')
  })

  it.each([
    [[], /name a backend of a gallery, or give --uri/],
    [['llama', '--uri', 'oci://r/e:1'], /not both/],
    [['llama', '--name', 'x'], /not both/],
    [['--uri', 'oci://r/e:1'], /--uri needs --name/],
    [['--uri', 'oci://r/e 1', '--name', 'x'], /--uri: a uri has no spaces/],
    [['../x'], /name: a backend name is/],
    [['llama', '--digest', 'abc'], /--digest: a digest is/],
    [['llama', '--selector', 'rack'], /is not KEY=VALUE/],
    [['llama', '--selector', 'rack=a', '--node', 'gpu-1'], /--node or --selector, not both/],
    [['llama', '--wait=soon'], /--wait: "soon" is not a duration/],
    [['llama', '--wait=-3s'], /--wait: "-3s" is negative/],
    [['llama', '--node', 'twin'], /2 nodes have the name "twin"/],
    [['llama', 'other'], /too many arguments/],
  ])('%j is wrong usage', async (args, message) => {
    expect(await muster('backends', 'install', ...args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(message) as string,
    })
    expect(changes()).toEqual([])
  })

  it('prints a refusal with its code', async () => {
    controller.refuse(backendRoutes.install, 409, { code: 'no_eligible_nodes', message: 'no node can take llama' })
    expect(await muster('backends', 'install', 'llama')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no node can take llama (no_eligible_nodes)') as string,
    })
    expect(await muster('backends', 'install', 'llama', '--node', 'nobody')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no node has the id or name "nobody"') as string,
    })
  })
})

describe('backends rm', () => {
  it.each([
    [[], '?force=false&dry_run=false'],
    [['--force', '--node', 'gpu-1', '--node', 'gpu-2'], '?node=node-aaaaaaaaaaaaaaaaaaaa%2Cnode-b&force=true&dry_run=false'],
  ])('with %j asks for %s', async (args, query) => {
    expect((await muster('backends', 'rm', 'llama', ...args)).code).toBe(0)
    expect(changes()).toMatchObject([{ method: 'DELETE', path: '/api/backends/llama', query }])
  })

  it('prints that it is in use', async () => {
    controller.refuse(backendRoutes.remove, 409, { code: 'in_use', message: 'llama serves tiny on gpu-1' })
    expect(await muster('backends', 'rm', 'llama')).toMatchObject({ code: 1, stderr: expect.stringContaining('(in_use)') as string })
  })
})

describe('backends upgrade', () => {
  it('asks for each by its name', async () => {
    expect((await muster('backends', 'upgrade', 'a', 'b', '--strategy', 'recreate', '--node', 'gpu-2', '--no-wait')).stdout).toBe(
      'op-1\nop-1\n',
    )
    const body = { strategy: 'recreate', nodes: ['node-b'] }
    expect(changes()).toMatchObject([
      { path: '/api/backends/a/upgrade', body },
      { path: '/api/backends/b/upgrade', body },
    ])
  })

  it('shows the progress of a rollout, and its rings beforehand', async () => {
    const args = ['--canary', '2', '--max-parallel', '4', '--min-healthy-time', '1m']
    expect((await muster('backends', 'upgrade', 'a', ...args, '--no-wait')).code).toBe(0)
    const rollout = { canary: 2, max_parallel: 4, min_healthy_time: '1m' }
    expect(changes()).toMatchObject([{ path: '/api/backends/a/upgrade', body: { strategy: 'rolling', rollout } }])
    const nodes = ['gpu-1', 'gpu-2', 'idle'].map((name, index) => operationNode({ node_name: name, ring: index < 2 ? index + 1 : null }))
    controller.answer(backendRoutes.upgrade, operationView({ nodes }))
    const shown = (await muster('backends', 'upgrade', 'a', '--dry-run')).stdout
    expect(shown).toMatch(/NODE +RING +STATUS/)
    expect(shown).toMatch(/gpu-2 +2 .*\n.*idle +- /)
  })

  it('lets one that is refused stop no other, and fails', async () => {
    controller.reply(backendRoutes.upgrade, ({ path }, response) => {
      const isThere = path !== '/api/backends/a/upgrade'
      const body = isThere ? { operation_id: 'op-1' } : { error: { code: 'not_installed', message: 'no node has a' } }
      response.writeHead(isThere ? 202 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
    const result = await muster('backends', 'upgrade', 'a', 'b')
    expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining('no node has a (not_installed)') as string })
    expect(result.stdout).toContain('succeeded')
    expect(await muster('backends', 'upgrade', 'a')).toMatchObject({ code: 1, stdout: '' })
  })

  it('--all leaves the choice of backends to the server, also with nodes, a strategy and a dry run', async () => {
    controller.answer(backendRoutes.upgradeAll, { operations: [] })
    expect(await muster('backends', 'upgrade', '--all')).toMatchObject({ code: 0, stdout: 'nothing to upgrade\n' })
    expect((await muster('backends', 'upgrade', '--all', '--node', 'gpu-2', '--strategy', 'recreate')).code).toBe(0)
    controller.answer(backendRoutes.upgradeAll, { operations: [operationView({ backend: 'a' }), operationView({ backend: 'b' })] })
    const dry = await muster('backends', 'upgrade', '--all', '--dry-run')
    expect(dry).toMatchObject({ code: 0, stderr: expect.stringContaining('dry run: nothing was started') as string })
    expect(dry.stdout).toMatch(/\ba\b[^]*\bb\b/)
    const bodies = [{ strategy: 'rolling' }, { strategy: 'recreate', nodes: ['node-b'] }, { strategy: 'rolling', dry_run: true }]
    expect(changes()).toEqual(bodies.map((body) => expect.objectContaining({ path: '/api/backends/upgrades', body })))
  })

  it.each([
    [[]],
    [['a', '--all']],
    [['a', 'b', '--dry-run']],
    [['a', '--strategy', 'magic']],
    [['a b']],
    [['a', '--canary', '0']],
    [['a', '--max-parallel', 'all']],
    [['a', '--min-healthy-time', '10']],
    [['a', '--strategy', 'recreate', '--canary', '1']],
  ])('%j is wrong usage', async (args) => {
    expect(await muster('backends', 'upgrade', ...args)).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('lists', () => {
  it('backends ls: versions, available actions, and nodes', async () => {
    controller.answer(backendRoutes.list, { backends: [backend(), backend({ name: 'echo', upgrade_available: false, drift: false })] })
    const { stdout, stderr } = await muster('backends', 'ls')
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(/ {2,}/)),
    ).toEqual([
      ['NAME', 'VERSION', 'STATE', 'NODES'],
      ['llama', '1.3, 1.4', 'upgrade available, drift', '2: gpu-2 (offline), twin'],
      ['echo', '1.3, 1.4', 'current', '2: gpu-2 (offline), twin'],
    ])
    expect(stderr).toContain('muster backends upgrade --all')
    expect(JSON.parse((await muster('backends', 'ls', '-o', 'json')).stdout)).toMatchObject({
      backends: [{ name: 'llama' }, { name: 'echo' }],
    })
  })

  it('backends gallery: offered backends, the number of nodes each one fits, and unreadable galleries', async () => {
    const node = (name: string, reason: string | null) => ({ node_id: NodeId.parse(name), node_name: name, fits: reason === null, reason })
    const offered = (name: string, nodes: readonly object[], channel = 'release') =>
      OfferedBackend.parse({
        name,
        channel,
        gallery: 'builtin',
        is_meta: false,
        version: '1',
        description: 'd',
        license: '',
        icon: '',
        tags: [],
        urls: [],
        installed: false,
        nodes,
      })
    controller.answer(backendRoutes.gallery, {
      backends: [
        offered('echo', [node('a', null), node('b', 'no GPU')]),
        offered('metal', [node('b', 'only for darwin')]),
        offered('echo-development', [node('a', null)], 'development'),
      ],
      problems: [{ gallery: 'far', message: 'unreachable' }],
      left_out: [],
    })
    const { stdout, stderr } = await muster('backends', 'gallery')
    expect(stdout).toMatch(/^echo +1 +builtin +no +1 of 2 nodes +d$/m)
    expect(stdout).toMatch(/^metal .* 0 of 1 node: only for darwin +d$/m)
    expect(stdout).not.toContain('echo-development')
    expect(stderr).toBe('1 development build is not shown; --development shows them\ncannot read gallery far: unreachable\n')
    expect((await muster('backends', 'gallery', '--development')).stdout).toMatch(/^echo-development .*1 of 1 node/m)
  })

  it('backends upgrades: the differences of the last check, or of a new one', async () => {
    const found = {
      installed_version: '1.3',
      available_version: '1.4',
      installed_digest: `sha256:${'1'.repeat(64)}`,
      available_digest: `sha256:${'2'.repeat(64)}`,
    }
    const node_drift = [{ node_id: NodeId.parse('node-b'), node_name: 'gpu-2', version: '1.2', digest: `sha256:${'3'.repeat(64)}` }]
    controller.answer(backendRoutes.upgrades, { upgrades: {}, checked_at: null, problems: [] })
    expect(await muster('backends', 'upgrades')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('not checked yet') as string,
    })
    controller.answer(backendRoutes.check, {
      upgrades: { llama: { ...found, node_drift } },
      checked_at: '2030-01-01T00:00:00Z',
      problems: [{ backend: 'echo', message: 'no answer' }],
    })
    const { stdout, stderr } = await muster('backends', 'upgrades', '--check')
    expect(stdout).toMatch(/^llama +1\.3 \(111111111111\) +1\.4 \(222222222222\) +gpu-2 has 1\.2 \(333333333333\)$/m)
    expect(stderr).toContain('cannot check echo: no answer')
  })

  it('ops ls: the active ones by default', async () => {
    controller.answer(operationRoutes.list, { operations: [operationView({ state: 'background' })] })
    expect((await muster('ops', 'ls')).stdout).toMatch(/^op-1 +backend\.install +llama +background +25 % .* 0 of 1 nodes done$/m)
    await muster('ops', 'ls', '--state', 'finished', '--dismissed')
    expect(controller.asked.map(({ query }) => query)).toEqual(['?state=active&dismissed=false', '?state=finished&dismissed=true'])
    expect((await muster('ops', 'ls', '--state', 'old')).code).toBe(2)
  })
})

describe('ops', () => {
  it('show: the operation and its nodes', async () => {
    const { stdout } = await muster('ops', 'show', 'op-1')
    expect(stdout).toMatch(/^State +succeeded$/m)
    expect(stdout).toMatch(/^gpu-1 +downloading +downloading +25 % +1 GB of 4 GB +-$/m)
    expect(await muster('ops', 'show', 'a b')).toMatchObject({ code: 2 })
  })

  it.each(['show', 'watch', 'retry', 'cancel'])('%s says that there is no such operation', async (command) => {
    const error = { code: 'not_found', message: 'there is no operation op-9' }
    for (const route of [operationRoutes.get, operationRoutes.retry, operationRoutes.cancel]) controller.refuse(route, 404, error)
    expect(await muster('ops', command, 'op-9')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('there is no operation op-9 (not_found)') as string,
    })
  })

  it('retry: on all nodes or on one, and follows', async () => {
    controller.answer(operationRoutes.retry, operationView())
    expect(await muster('ops', 'retry', 'op-1')).toMatchObject({ code: 0, stdout: expect.stringContaining('succeeded') as string })
    expect((await muster('ops', 'retry', 'op-1', '--node', 'gpu-1', '--no-wait')).stdout).toBe('op-1\n')
    expect(changes().map(({ body }) => body)).toEqual([{}, { node_id: 'node-aaaaaaaaaaaaaaaaaaaa' }])
    controller.refuse(operationRoutes.retry, 409, { code: 'superseded', message: 'a newer operation is there' })
    expect(await muster('ops', 'retry', 'op-1')).toMatchObject({ code: 1, stderr: expect.stringContaining('(superseded)') as string })
  })

  it('cancel: prints the state, and the remaining work', async () => {
    controller.answer(operationRoutes.cancel, operationView({ message: 'cancelling' }))
    const { code, stdout, stderr } = await muster('ops', 'cancel', 'op-1')
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'install llama (op-1) is running: cancelling\n' })
    expect(stderr).toContain('muster ops watch op-1')
    controller.refuse(operationRoutes.cancel, 409, { code: 'already_finished', message: 'it has ended' })
    expect((await muster('ops', 'cancel', 'op-1')).code).toBe(1)
  })

  it('pause, resume, dismiss: print the state, or the refusal', async () => {
    const pausedAt = '2030-01-01T00:00:00Z'
    controller.answer(
      operationRoutes.pause,
      operationView({ state: 'background', message: 'paused; 0 of 1 nodes done', paused_at: pausedAt }),
    )
    controller.answer(operationRoutes.resume, operationView())
    controller.answer(operationRoutes.dismiss, operationView({ state: 'failed', dismissed_at: pausedAt }))
    expect((await muster('ops', 'pause', 'op-1')).stdout).toBe('install llama (op-1) is paused; background: paused; 0 of 1 nodes done\n')
    expect((await muster('ops', 'resume', 'op-1')).stdout).toBe('install llama (op-1) is resumed; running: 0 of 1 nodes done\n')
    expect((await muster('ops', 'dismiss', 'op-1')).stdout).toBe('install llama (op-1) is dismissed\n')
    controller.refuse(operationRoutes.pause, 409, { code: 'cannot_pause', message: 'loads cannot be paused' })
    expect(await muster('ops', 'pause', 'op-1')).toMatchObject({ code: 1, stderr: expect.stringContaining('(cannot_pause)') as string })
  })
})
