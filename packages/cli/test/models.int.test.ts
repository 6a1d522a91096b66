// `muster models …` against a scripted controller: what is asked, what is printed, and how it ends.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { modelRoutes, NodeId, nodeRoutes, OperationId, operationRoutes, ReplicaId } from '@muster/protocol'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { modelView, replicaView, revision } from './model-views.ts'
import { type Result, runInProcess } from './run-in-process.ts'
import { nodeView, operationView, type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
let dir: TempDir
const id = OperationId.parse('op-1')
const nodeId = NodeId.parse('node-aaaaaaaaaaaaaaaaaaaa')
beforeAll(async () => {
  dir = await makeTempDir()
})
afterAll(() => dir[Symbol.asyncDispose]())
beforeEach(async () => {
  controller = await startScriptedController()
})
afterEach(() => controller[Symbol.asyncDispose]())

const muster = (...args: string[]): Promise<Result> => runInProcess(args, { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const piped = (text: string, ...args: string[]): Promise<Result> =>
  runInProcess(args, { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' }, text)
const changes = () => controller.asked.filter(({ method }) => method !== 'GET')
const failure = {
  code: 'integrity',
  message: 'tiny.gguf is not what its sha256 says',
  at: '2030-01-01T00:00:00Z',
  next_retry_at: null,
  attempts: 1,
}

describe('models ls and show', () => {
  it('list the models, with failures', async () => {
    controller.answer(modelRoutes.list, {
      models: [modelView(), modelView({ name: 'team/big', state: 'failed', replicas_ready: 0, failure, revision: revision('b') })],
    })
    const { stdout, stderr } = await muster('models', 'ls')
    expect(stdout.split('\n')).toEqual([
      'NAME      BACKEND  STATE   REPLICAS  REVISION      FAILURE',
      'tiny      llama    ready        1/2  aaaaaaaaaaaa  -',
      'team/big  llama    failed       0/2  bbbbbbbbbbbb  tiny.gguf is not what its sha256 says (integrity); 1 attempt, waits for a load by an administrator or a new revision',
      '',
    ])
    expect(stderr).toContain('muster models why NAME')
  })

  it('print the next step when there are none', async () => {
    controller.answer(modelRoutes.list, { models: [] })
    expect(await muster('models', 'ls')).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('no models yet') as string })
    expect(JSON.parse((await muster('models', 'ls', '-o', 'json')).stdout)).toEqual({ models: [] })
  })

  it('show all of one, with its replicas and where they are', async () => {
    controller.answer(modelRoutes.get, modelView({ name: 'team/big' }), { new_field: 1 })
    controller.answer(modelRoutes.replicas, {
      replicas: [
        replicaView({ backend_digest: `sha256:${'d'.repeat(64)}` }),
        replicaView({ id: 'r-2', node_name: 'gpu-2', revision: revision('c'), state: 'draining', reachable: false }),
      ],
    })
    const { stdout } = await muster('models', 'show', 'team/big')
    expect(stdout).toMatch(/^Scheduling +1 to 4 replicas\n +on nodes with gpu\.vendor=nvidia\|amd\n +priority 3\n +requests by prefix$/m)
    expect(stdout).toMatch(/^Revision +sha256-a{64}$/m)
    expect(stdout).toMatch(/^Files +tiny\.gguf from https:\/\/models\.example\.com\/tiny\.gguf$/m)
    expect(stdout).toMatch(/^REPLICA +NODE +STATE +REACHABLE +ACTIVE +REVISION +BUILD +UP$/m)
    expect(stdout).toMatch(/^r-1 +gpu-1 +ready +yes +2 +current +dddddddddddd/m)
    expect(stdout).toMatch(/^r-2 +gpu-2 +draining +no +2 +cccccccccccc/m)
    expect(controller.asked[0]?.path).toBe('/api/models/team%2Fbig')
    const json: unknown = JSON.parse((await muster('models', 'show', 'team/big', '-o', 'json')).stdout)
    expect(json).toMatchObject({ name: 'team/big', new_field: 1, replicas: [{ id: 'r-1' }, { id: 'r-2' }] })
  })

  it('refuse an invalid name without a request', async () => {
    expect(await muster('models', 'show', '../x')).toMatchObject({ code: 2, stderr: expect.stringContaining('a model name is') as string })
    expect(controller.asked).toEqual([])
  })
})

describe('models explain', () => {
  const explain = (text: string, ...args: string[]): Promise<Result> => runInProcess(['models', 'explain', '-', ...args], {}, text)

  it('prints key by key how a LocalAI file is understood, then the configuration, without a controller', async () => {
    const { code, stdout } = await explain('name: my-qwen3\nbackend: llama\nthreads: 4\nusage: x\n')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^KEY +OUTCOME +BECOMES +MEANING$/m)
    expect(stdout).toMatch(/^backend +mapped +backend +llama is served by llama-cpp\.$/m)
    expect(stdout).toMatch(/^usage +no effect +- +Muster shows no usage text\.$/m)
    expect(stdout).toMatch(/^2 mapped, 1 carried, 1 without effect: usage$/m)
    expect(stdout).toMatch(/^ {2}temperature: 0\.6$/m)
  })

  it('ends with 1 when a key is refused, or the result is not valid', async () => {
    const { code, stdout } = await explain('name: a b\nbackend: pattern\nf16: true\n')
    expect({ code, refused: /^Not valid: (.*)$/m.exec(stdout)?.[1] }).toEqual({ code: 1, refused: 'refused: name, backend' })
    expect((await explain('name: a\nbackend: b\nf16: true\ncontext_size: 99999999\n')).stdout).toContain('Not valid: context_size: ')
    expect(await explain('name: a\nbakend: b\n')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('a configuration of Muster') as string,
    })
  })

  it('prints JSON, of one model or of several', async () => {
    const one: unknown = JSON.parse((await explain('{"name":"a","backend":"b","f16":true}', '-o', 'json')).stdout)
    expect(one).toMatchObject({ name: 'a', problem: null, config: { parameters: { f16: true } }, keys: [{ key: 'name' }, {}, {}] })
    const both: unknown = JSON.parse(
      (await explain('- {name: a, backend: b}\n- {name: c, backend: llama}\n', '-o', 'json', '--localai')).stdout,
    )
    expect(both).toMatchObject({ models: [{ config: { backend: 'b' } }, { config: { backend: 'llama-cpp' } }] })
    expect(await explain('name: a\nbackend: b\n', '-o', 'json')).toMatchObject({
      stdout: expect.stringContaining('"keys": null') as string,
    })
  })

  it('lets no text of the file rule the terminal', async () => {
    const { stdout } = await explain('name: a\nbackend: b\nf16: true\n"\\e[2J\\x9b": 1\nstopwords: ["\\e[2J\\x9b"]\n')
    for (const char of ['\u001b', '\u009b']) expect(stdout).not.toContain(char)
  })
})

describe('models apply', () => {
  const yaml = '# two models\nname: tiny\nbackend: llama\n---\n# nothing here\n---\nname: team/big\nbackend: llama\ncontext_sise: 5\n'
  const file = async (text: string): Promise<string> => {
    const path = join(dir.path, 'models.yaml')
    await writeFile(path, text)
    return path
  }
  /** As a controller does it: 201 for a new one, and what is there from then on. */
  const putAnswers = (status: number, after: object) =>
    controller.reply(modelRoutes.put, (_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(after))
    })

  it('sends each document unchanged, on the lines that it has in the file', async () => {
    putAnswers(201, modelView())
    const path = await file(yaml)
    const { code, stdout } = await muster('models', 'apply', '-f', path)
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'tiny created (revision aaaaaaaaaaaa)\n'.repeat(2) })
    const [first, second] = changes()
    expect([first?.path, second?.path]).toEqual(['/api/models/tiny', '/api/models/team%2Fbig'])
    expect(first?.headers['content-type']).toBe('application/yaml')
    expect(String(second?.body).split('\n')[8]).toBe('context_sise: 5')
    expect(String(second?.body)).not.toContain('tiny')
  })

  it.each([
    [
      'changed (revision aaaaaaaaaaaa is now bbbbbbbbbbbb)',
      modelView({ revision: revision('b'), config: { name: 'tiny', backend: 'vllm' } }),
    ],
    ['changed; its replicas keep running (revision aaaaaaaaaaaa)', modelView({ config: { name: 'tiny', backend: 'llama' } })],
    ['unchanged (revision aaaaaaaaaaaa)', modelView()],
  ])('says: %s', async (said, after) => {
    controller.answer(modelRoutes.get, modelView())
    putAnswers(200, after)
    expect(await piped('name: tiny\nbackend: llama\n', 'models', 'apply', '-f', '-')).toEqual({
      code: 0,
      stdout: `tiny ${said}\n`,
      stderr: '',
    })
    const { stdout } = await piped('{"name":"tiny","backend":"llama"}', 'models', 'apply', '-f', '-', '-o', 'json')
    expect(JSON.parse(stdout)).toMatchObject({ name: 'tiny', outcome: said.split(/[ ;]/)[0] })
    expect(changes().at(-1)).toMatchObject({ headers: { 'content-type': 'application/json' }, body: { name: 'tiny' } })
  })

  it('sends the models of a list one by one, on the lines and columns that they have in the file', async () => {
    putAnswers(201, modelView())
    const { code } = await piped('# all\n- name: a\n  backend: b\n- name: tuga\u0303o\n  f16: true\n', 'models', 'apply', '-f', '-')
    expect(code).toBe(0)
    expect(changes().map(({ path, body }) => [path, body])).toEqual([
      ['/api/models/a', '\n  name: a\n  backend: b\n'],
      ['/api/models/tug%C3%A3o', '\n\n\n  name: tuga\u0303o\n  f16: true\n'],
    ])
  })

  it('sums up the conversion of a LocalAI file', async () => {
    const key = (name: string, outcome: string) => ({ key: name, outcome, to: null, message: 'x' })
    const keys = [key('f16', 'carried'), key('usage', 'no_effect'), key('typo', 'no_effect'), key('name', 'mapped')]
    putAnswers(201, { ...modelView(), keys })
    expect(await piped('name: tiny\nbackend: llama\n', 'models', 'apply', '-f', '-', '--localai')).toMatchObject({
      stdout: 'tiny created (revision aaaaaaaaaaaa)\n',
      stderr: 'tiny was a LocalAI configuration: 1 mapped, 1 carried, 2 without effect: usage, typo\n',
    })
    expect(changes()).toMatchObject([{ path: '/api/models/tiny', query: '?from=localai' }])
  })

  it('prints refusals of the controller with the file, continues with the next one, and ends with 1', async () => {
    controller.reply(modelRoutes.put, ({ path }, response) => {
      const isGood = path.endsWith('tiny')
      const error = { code: 'invalid', message: 'line 9: unknown key "context_sise"; the closest known key is context_size' }
      response.writeHead(isGood ? 201 : 400, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isGood ? modelView() : { error }))
    })
    const path = await file(yaml.replace('name: tiny', 'name: first').replace('name: team/big', 'name: tiny'))
    const { code, stdout, stderr } = await muster('models', 'apply', '-f', path)
    expect({ code, stdout }).toEqual({ code: 1, stdout: 'tiny created (revision aaaaaaaaaaaa)\n' })
    expect(stderr).toBe(`error: ${path}: line 9: unknown key "context_sise"; the closest known key is context_size (invalid)\n`)
  })

  it.each([
    ['name: tiny\nbackend: llama\n---\nbackend: llama\n', /models\.yaml:4: the model has no name/],
    ['name: ../x\n', /models\.yaml:1: name: a model name is/],
    ['- tiny\n', /models\.yaml:1: expected a model as keys and values/],
    ['- name: tiny\n- backend: b\n', /models\.yaml:2: the model has no name/],
    ['name: tiny\n  backend: llama\n', /models\.yaml:1: /],
    ['# nothing\n', /contains no model/],
    ['', /contains no model/],
    ['[]', /contains no model/],
  ])('sends nothing of an invalid file: %j', async (text, message) => {
    expect(await muster('models', 'apply', '-f', await file(text))).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(message) as string,
    })
    expect(controller.asked).toEqual([])
  })

  it('answers with 2 to a file that is not there, and to none at all', async () => {
    expect(await muster('models', 'apply', '-f', '/nowhere.yaml')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no such file') as string,
    })
    expect((await muster('models', 'apply')).code).toBe(2)
  })

  it('sends the revision that is expected, in full when its beginning was given', async () => {
    const full = `sha256-${'ab'.repeat(32)}`
    controller.answer(modelRoutes.get, modelView({ revision: full }))
    putAnswers(200, modelView())
    for (const given of ['abababab', 'ab'.repeat(32), full, 'ffffffff', 'ab'])
      await piped('name: tiny\nbackend: llama\n', 'models', 'apply', '-f', '-', '--if-match', given)
    expect(changes().map(({ headers }) => headers['if-match'])).toEqual([full, full, full, 'ffffffff', 'ab'])
    controller.refuse(modelRoutes.put, 409, { code: 'revision_conflict', message: 'tiny has revision abab… by now' })
    expect(await piped('name: tiny\nbackend: llama\n', 'models', 'apply', '-f', '-', '--if-match', 'ffffffff')).toMatchObject({
      code: 1,
      stderr: 'error: standard input: tiny has revision abab… by now (revision_conflict)\n',
    })
    expect((await muster('models', 'apply', '-f', await file(yaml), '--if-match', 'x')).code).toBe(2)
  })
})

describe('models load, unload, rm and install', () => {
  it.each([
    [['load', 'team/big'], modelRoutes.load, { method: 'POST', path: '/api/models/team%2Fbig/load', body: {} }],
    [['unload', 'tiny'], modelRoutes.unload, { method: 'POST', path: '/api/models/tiny/unload', body: {} }],
    [['rm', 'tiny'], modelRoutes.remove, { method: 'DELETE', path: '/api/models/tiny', body: undefined }],
    [['install', 'tiny'], modelRoutes.install, { method: 'POST', path: '/api/models/install', body: { model: 'tiny' } }],
  ] as const)('%j asks for it once, and ends as the operation does', async (args, route, { method, path, body }) => {
    controller.answer(route, { operation_id: id })
    controller.answer(operationRoutes.get, operationView({ kind: 'model.load', model: 'tiny', backend: null, state: 'succeeded' }))
    const { code, stdout } = await muster('models', ...args)
    expect({ code, last: stdout.trimEnd().split('\n').at(-1) }).toEqual({ code: 0, last: 'load tiny: succeeded: 0 of 1 nodes done' })
    expect(changes()).toMatchObject([{ method, path, headers: { 'idempotency-key': expect.any(String) as string } }])
    expect(changes()[0]?.body).toEqual(body)
    expect((await muster('models', ...args, '--no-wait')).stdout).toBe('op-1\n')
    controller.answer(operationRoutes.get, operationView({ state: 'failed' }))
    expect((await muster('models', ...args, '--wait=1h')).code).toBe(1)
    controller.answer(operationRoutes.get, operationView({ state: 'background' }))
    expect((await muster('models', ...args, '-o', 'json')).code).toBe(3)
  })

  it('follow an operation without nodes too, by its own bytes', async () => {
    controller.answer(modelRoutes.install, { operation_id: id })
    const install = { kind: 'model.install', model: 'tiny', backend: null, nodes: [] }
    controller.answer(operationRoutes.get, operationView({ ...install, state: 'succeeded', message: 'installed' }))
    expect(await muster('models', 'install', 'tiny')).toMatchObject({ code: 0, stdout: 'install tiny: succeeded: installed\n' })
  })
})

describe('models gallery', () => {
  it('lists offered models, and unreadable galleries', async () => {
    controller.answer(modelRoutes.gallery, {
      models: [
        {
          name: modelView().name,
          description: 'a toy',
          license: 'MIT',
          icon: '',
          tags: [],
          urls: [],
          size_bytes: null,
          variants: [],
          gallery: 'muster',
          backend: 'llama',
          installed: true,
        },
      ],
      problems: [{ gallery: 'far', message: 'no answer' }],
      left_out: [{ gallery: 'odd', count: 2, entries: [{ index: 4, name: 'broken', message: 'overrides: expected a mapping' }] }],
    })
    const { stdout, stderr } = await muster('models', 'gallery')
    expect(stdout).toMatch(/^tiny +llama +muster +yes +MIT +a toy$/m)
    expect(stderr).toBe(
      'cannot read gallery far: no answer\nodd: 2 entries cannot be read and are left out; entry 5 (broken): overrides: expected a mapping\n',
    )
  })
})

describe('models scale', () => {
  beforeEach(() => {
    controller.answer(modelRoutes.get, modelView())
    controller.answer(modelRoutes.scheduling, modelView())
  })

  it.each([
    [['--min', '2'], { min_replicas: 2, max_replicas: 4 }],
    [['--min', '0', '--max', '0'], { min_replicas: 0, max_replicas: 0 }],
    [['--all'], { replicas: 'all' }],
    [['3'], { min_replicas: 3, max_replicas: 3 }],
    [['1..3'], { min_replicas: 1, max_replicas: 3 }],
    [['0..1'], { min_replicas: 0, max_replicas: 1 }],
    [['2..'], { min_replicas: 2, max_replicas: 0 }],
    [['all'], { replicas: 'all' }],
  ])('%j keeps all else', async (args, counts) => {
    expect(await muster('models', 'scale', 'tiny', ...args)).toEqual({
      code: 0,
      stdout: 'tiny: 1 to 4 replicas; on nodes with gpu.vendor=nvidia|amd; priority 3; requests by prefix\n',
      stderr: '',
    })
    expect(changes()).toMatchObject([{ method: 'PUT', path: '/api/models/tiny/scheduling' }])
    expect(changes()[0]?.body).toEqual({ node_selector: { 'gpu.vendor': ['nvidia', 'amd'] }, priority: 3, ...counts })
  })

  it('ends "all" when numbers are given', async () => {
    controller.answer(modelRoutes.get, modelView({ config: { name: 'tiny', backend: 'llama', scheduling: { replicas: 'all' } } }))
    await muster('models', 'scale', 'tiny', '--max', '3')
    expect(changes()[0]?.body).toEqual({ max_replicas: 3 })
  })

  it.each([
    [[]],
    [['0']],
    [['0..0']],
    [['4..2']],
    [['1..2..3']],
    [['some']],
    [['2', '--max', '3']],
    [['--all', '--min', '1']],
    [['--min', '-1']],
    [['--min', 'two']],
    [['--min', '5']],
  ])('asks for nothing with %j', async (args) => {
    expect((await muster('models', 'scale', 'tiny', ...args)).code).toBe(2)
    expect(changes()).toEqual([])
  })
})

describe('models why', () => {
  it('rates every node, the best first, with the progress of the load and failures', async () => {
    controller.answer(modelRoutes.loadStatus, {
      model: 'tiny',
      state: 'staging',
      node: 'gpu-1',
      progress: 41.2,
      current_bytes: 1.2e9,
      total_bytes: 3e9,
      eta_seconds: 11,
      failure: { ...failure, code: 'unavailable', message: 'no route to host' },
    })
    const node = (name: string, eligible: boolean, score: number, reason: string) => ({
      node_id: nodeId,
      node_name: name,
      eligible,
      score,
      reason,
    })
    const memory = { device: 'gpu' as const, ram: 310e6, vram: 5.6e9, free_ram: null, free_vram: 9e9, card: { id: 'GPU-a', name: 'L4' } }
    const parts = { weights: 5e9, cache: 5e8, compute: 1e8, mmproj: 0, process: 3e8, total: 5.9e9, per_layer: 1e8, layers: 32 }
    controller.answer(modelRoutes.placement, {
      memory: { basis: 'gguf', parts },
      nodes: [
        node('a', false, 0, 'needs 8 GB of memory, 2 GB are free'),
        { ...node('b', true, 0.5, ''), memory },
        node('c', true, 0.75123456, ''),
      ],
    })
    const { stdout } = await muster('models', 'why', 'tiny')
    expect(stdout).toMatch(/^State +staging on gpu-1, 41 % \(1\.2 GB of 3 GB\), about 11s left$/m)
    expect(stdout).toMatch(/^Failure +no route to host \(unavailable\); 1 attempt/m)
    expect(stdout).toMatch(/^Memory +5\.9 GB: 5 GB weights, 500 MB cache, 100 MB compute, 300 MB process$/m)
    expect(stdout).toMatch(/c +yes +0\.751 +- +-\nb +yes +0\.5 +5\.6 GB on GPU L4 and 310 MB RAM +-\na +no +- +- +needs 8 GB/)
    expect(JSON.parse((await muster('models', 'why', 'tiny', '-o', 'json')).stdout)).toMatchObject({
      load_status: { state: 'staging' },
      placement: { nodes: [{ node_name: 'a' }, {}, {}] },
    })
  })

  it.each([
    [[{ id: ReplicaId.parse('r-1'), model: 'old' }], /^To make room on a, these replicas are ended: r-1 of old\.$/m],
    [[], /^Waiting for replicas on a to end\.$/m],
  ])('says which replicas make room when it fits nowhere (%j)', async (replicas, said) => {
    controller.answer(modelRoutes.loadStatus, {
      ...{ model: 'tiny', state: 'pending', node: null, progress: 0, current_bytes: 0, total_bytes: 0, failure: null },
    })
    const reason = 'it needs about 2.3 GB of memory, and 1.0 GB of 4.0 GB are free'
    controller.answer(modelRoutes.placement, {
      nodes: [{ node_id: nodeId, node_name: 'a', eligible: false, score: 0, reason, excluded_by: 'memory' }],
      eviction: { node_id: nodeId, node_name: 'a', replicas },
    })
    const { stdout } = await muster('models', 'why', 'tiny')
    expect(stdout).toContain(reason)
    expect(stdout).toMatch(said)
  })
})

describe('models upload', () => {
  it('sends the file unchanged, and prints its URI', async () => {
    const digest = `sha256:${'cd'.repeat(32)}`
    controller.answer(modelRoutes.upload, { filename: 'sub/model.gguf', digest, size: 11, nodes: [nodeId] })
    const path = join(dir.path, 'model.gguf')
    await writeFile(path, 'hello world')
    const { code, stdout } = await muster('models', 'upload', 'tiny', path, '--as', 'sub/model.gguf')
    expect(code).toBe(0)
    expect(stdout).toContain(`upload:${digest}`)
    expect(changes()).toMatchObject([
      { method: 'PUT', path: '/api/models/tiny/files/sub%2Fmodel.gguf', headers: { 'content-length': '11' }, body: 'hello world' },
    ])
    await muster('models', 'upload', 'tiny', path)
    expect(changes()[1]?.path).toBe('/api/models/tiny/files/model.gguf')
  })

  it('prints a refusal unchanged, and sends only files', async () => {
    controller.refuse(modelRoutes.upload, 503, { code: 'disk_full', message: 'no worker has room for model.gguf' })
    const path = join(dir.path, 'model.gguf')
    await writeFile(path, 'hello world')
    expect(await muster('models', 'upload', 'tiny', path)).toMatchObject({
      code: 1,
      stderr: 'error: no worker has room for model.gguf (disk_full)\n',
    })
    for (const args of [[dir.path], [join(dir.path, 'none')], [path, '--as', '../x']])
      expect((await muster('models', 'upload', 'tiny', ...args)).code).toBe(2)
  })
})

describe('models logs', () => {
  beforeEach(() => {
    controller.reply(nodeRoutes.logs, ({ path, query }, response) => {
      const name = path.includes('node-b') ? 'b' : 'a'
      const isFollowing = query.includes('follow=true')
      response.writeHead(200, { 'content-type': isFollowing ? 'text/event-stream' : 'text/plain' })
      response.end(isFollowing ? `data: ${name} one\n\ndata: ${name} two\n\n` : `${name} one\n${name} \u001b[31mtwo`)
    })
  })

  it('shows the lines of all its nodes, each with the name of its node when there are several', async () => {
    controller.answer(modelRoutes.replicas, { replicas: [replicaView(), replicaView({ id: 'r-2' })] })
    expect(await muster('models', 'logs', 'tiny')).toEqual({ code: 0, stdout: 'a one\na two\n', stderr: '' })
    expect(controller.asked.at(-1)?.query).toBe('?model=tiny&follow=false')
    controller.answer(modelRoutes.replicas, { replicas: [replicaView(), replicaView({ id: 'r-2', node_id: 'node-b', node_name: 'b' })] })
    const { stdout } = await muster('models', 'logs', 'tiny')
    expect(stdout.trimEnd().split('\n').toSorted()).toEqual(['b      b one', 'b      b two', 'gpu-1  a one', 'gpu-1  a two'])
    const lines = (await muster('models', 'logs', 'tiny', '-o', 'json')).stdout.trimEnd().split('\n')
    expect(lines.map((line): unknown => JSON.parse(line))).toContainEqual({ node_id: 'node-b', node_name: 'b', line: 'b one' })
  })

  it('asks every node that could have one, when it has no replica, and one alone when it is named', async () => {
    controller.answer(modelRoutes.replicas, { replicas: [] })
    controller.answer(nodeRoutes.list, {
      nodes: [nodeView(), nodeView({ id: 'node-b', name: 'b' }), nodeView({ id: 'node-c', name: 'c', status: 'offline' })],
    })
    expect((await muster('models', 'logs', 'tiny')).stdout.split('\n')).toHaveLength(5)
    expect((await muster('models', 'logs', 'tiny', '--node', 'b')).stdout).toBe('b one\nb two\n')
  })

  it('reports when a followed log breaks off, and ends with 1', async () => {
    controller.answer(nodeRoutes.list, { nodes: [nodeView()] })
    expect(await muster('models', 'logs', 'tiny', '--node', 'gpu-1', '-f')).toEqual({
      code: 1,
      stdout: 'a one\na two\n',
      stderr: 'error: gpu-1: the log broke off: the controller ended it\n',
    })
  })
})
