// `muster import localai`: a LocalAI data directory of ten models, and a running instance, into a real fleet.
import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  adminKey,
  type ApiClient,
  copyLocalAiBackend,
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
let api: ApiClient
let site: string
const muster = (...args: string[]): Promise<Result> => runInProcess(args, env)

const clientKey = 'sk-of-a-client-of-the-old-site'
const weights = Buffer.from('the weights of a model')
const sha256 = createHash('sha256').update(weights).digest('hex')

/** Ten models of different kinds. */
const files: Readonly<Record<string, string | Buffer | object>> = {
  'models/llama.yaml':
    'name: llama-3\nbackend: llama-cpp\nparameters: {model: llama-cpp/models/llama.gguf, temperature: 0.6}\ncontext_size: 8192\nf16: true\nmmap: true\n',
  'models/._gallery_llama.yaml': `name: llama-3\nfiles:\n- {filename: llama-cpp/models/llama.gguf, uri: "huggingface://o/r/llama.gguf", sha256: ${'a'.repeat(64)}}\n`,
  'models/vision.yaml':
    'name: vision\nbackend: llama-cpp\nparameters: {model: vision.gguf}\nmmproj: mm/proj.gguf\nknown_usecases: [chat, vision]\nstopwords: ["</s>"]\nroles: {user: "User: "}\ntemplate: {chat: house}\n',
  'models/house.tmpl': '{{.Input}}\nAssistant:',
  'models/vision.gguf': 'v',
  'models/mm/proj.gguf': 'p',
  'models/embed.yaml': 'name: embed\nbackend: echo\nembeddings: true\nparameters: {model: e.gguf}\n',
  'models/._gallery_embed.yaml': `files: [{filename: e.gguf, uri: "https://unreachable.example/e.gguf", sha256: ${sha256}}]\n`,
  'models/e.gguf': weights,
  'models/speech.yaml':
    '- {name: whisper-1, backend: whisper, parameters: {model: w.bin}, known_usecases: [transcript]}\n- {name: tts-1, backend: piper, parameters: {model: voice.onnx}, tts: {voice: amy}}\n',
  'models/w.bin': 'w',
  'models/voice.onnx': 'o',
  'models/image.yaml':
    'name: image\nbackend: diffusers\nparameters: {model: runwayml/sd}\nstep: 20\ncfg_scale: 7\ndiffusers: {pipeline_type: StableDiffusionPipeline, cuda: false}\n',
  'models/rerank.yaml': 'name: rerank\nbackend: rerankers\nparameters: {model: cross-encoder}\nreranking: true\n',
  'models/echo.yaml': 'name: echo-old\nbackend: echo\nparameters: {model: echo.bin}\nusage: anything\n',
  'models/echo.bin': weights,
  'models/vllm.yaml':
    'name: vllm-model\nbackend: vllm\nparameters: {model: org/model}\ntrust_remote_code: true\ngpu_memory_utilization: 0.9\n',
  'models/options.yaml':
    'name: with-options\nbackend: sherpa-onnx\nparameters: {model: s.onnx}\noptions: ["language=en", "backend:cpu", "bare"]\n',
  'models/s.onnx': 's',
  'models/pipeline.yaml': 'name: pipe\npipeline: {llm: llama-3, tts: tts-1}\n',
  'models/broken.yaml': 'name: [broken\n',
  'configuration/runtime_settings.json': {
    threads: 4,
    galleries: [{ name: 'site', url: 'https://gallery.example/models.yaml' }],
    backend_galleries: [{ name: 'site', url: 'SITE/backends.yaml' }],
  },
  'configuration/api_keys.json': [clientKey],
  'backends/cpu-llama-cpp/metadata.json': { alias: 'llama-cpp' },
  'more-rules.yaml': '- {model_name: image, max_replicas: 4}\n',
  'scheduling.yaml':
    '- {model_name: echo-old, min_replicas: 1, max_replicas: 2, node_selector: {node.name: gpu-1}}\n- {model_name: nobody, min_replicas: 1}\n',
}
const imported = ['echo-old', 'embed', 'image', 'llama-3', 'rerank', 'tts-1', 'vision', 'vllm-model', 'whisper-1', 'with-options']

beforeAll(async () => {
  const nats = held.use(await startNats())
  const database = held.use(await createTestDatabase({ serverUrl: inject('postgresUrl') }))
  const directory = held.use(await makeTempDir('import'))
  site = join(directory.path, 'site')
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(site, path)), { recursive: true })
    const text = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content).replaceAll('SITE', site)
    await writeFile(join(site, path), text)
  }
  await copyLocalAiBackend(join(site, 'image'))
  await writeFile(join(site, 'backends.yaml'), `- {name: llama-cpp, uri: "${pathToFileURL(join(site, 'image')).href}"}\n`)
  const at = { processes, directory: directory.path, databaseUrl: database.url, natsUrl: nats.url }
  const cluster = await startCluster({ ...at, controllers: 1, args: ['--auto-approve', '--require-api-key'] })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('one controller was started')
  api = controller.api
  await cluster.startWorker({ name: 'gpu-1', join: controller.url, token: joinToken, args: ['--shared-models', join(site, 'models')] })
  await waitFor(async () => (await nodesOf(api)).some((node) => node.status === 'healthy'), { what: 'a healthy node' })
  env = { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: adminKey }
})
afterAll(async () => {
  await processes.stopAll()
  await held.disposeAsync()
})

interface Report {
  readonly items: { kind: string; name: string; outcome: string; message: string }[]
  readonly losses: { about: string; key: string; message: string }[]
  readonly counts: Record<string, Record<string, number>>
  readonly dry_run: boolean
}
async function importSite(...args: string[]): Promise<Result & { report: Report }> {
  const result = await muster('import', 'localai', ...args, '-o', 'json')
  return { ...result, report: JSON.parse(result.stdout === '' ? '{}' : result.stdout) as Report }
}
const fromDirectory = (...args: string[]) => importSite(site, '--scheduling', join(site, 'scheduling.yaml'), ...args)
const stateOf = async () => {
  const read = async (path: string): Promise<unknown> => (await api.get(path)).body
  const models = (await read('/api/models')) as { models: { name: string; config: object; revision: string }[] }
  const keys = (await read('/api/keys')) as { keys: { name: string; scope: string; id: string }[] }
  return {
    models: models.models.map(({ name, config, revision }) => ({ name, config, revision })),
    keys: keys.keys.map(({ name, scope, id }) => ({ name, scope, id })),
    galleries: await read('/api/galleries'),
  }
}
const callWith = (key: string) => fetch(`${env['MUSTER_URL']}/v1/models`, { headers: { authorization: `Bearer ${key}` } })

describe('a data directory', () => {
  it('is reported and nothing changes in a dry run', async () => {
    const before = await stateOf()
    const { code, report, stderr } = await fromDirectory('--dry-run')
    expect(code, stderr).toBe(1)
    expect(report).toMatchObject({
      dry_run: true,
      counts: { model: { created: 10, refused: 1 }, gallery: { created: 2 }, key: { created: 1 } },
    })
    expect(await stateOf()).toEqual(before)
    expect((await callWith(clientKey)).status).toBe(401)
  })

  it('moves in with no line edited, and each loss has a sentence', async () => {
    const { code, report, stdout } = await fromDirectory()
    const models = report.items.filter(({ kind }) => kind === 'model')
    expect(
      models
        .filter(({ outcome }) => outcome === 'created')
        .map(({ name }) => name)
        .toSorted(),
      stdout,
    ).toEqual(imported)
    // The pipeline is refused.
    expect(code).toBe(1)
    expect(models.find(({ name }) => name === 'pipe')).toMatchObject({ outcome: 'refused', message: expect.stringContaining('pipeline') })
    expect(report.losses.every(({ message }) => message.length > 5)).toBe(true)
    expect(report.losses.map(({ about }) => about)).toContain('models/broken.yaml')
    expect(report.losses).toContainEqual(expect.objectContaining({ key: 'nobody' }))
    expect(stdout).not.toContain(clientKey)
    const state = await stateOf()
    expect(state.galleries).toMatchObject({
      galleries: expect.arrayContaining([
        expect.objectContaining({ name: 'site', kind: 'model' }),
        expect.objectContaining({ name: 'site-backends', kind: 'backend' }),
      ]),
    })
    const config = (name: string) => state.models.find((model) => model.name === name)?.config
    expect(config('llama-3')).toMatchObject({
      files: [{ uri: 'hf://o/r/llama.gguf', filename: 'llama-cpp/models/llama.gguf', sha256: 'a'.repeat(64) }],
      context_size: 8192,
    })
    expect(config('vision')).toMatchObject({ files: [{ filename: 'vision.gguf' }, { filename: 'mm/proj.gguf' }] })
    expect(config('echo-old')).toMatchObject({
      files: [{ uri: `upload:sha256:${sha256}`, filename: 'echo.bin', sha256 }],
      scheduling: { min_replicas: 1, max_replicas: 2, node_selector: { 'node.name': 'gpu-1' } },
    })
  })

  it('serves: a model with a rule is loaded from its sent file, and clients keep their key', async () => {
    await waitFor(async () => (await api.get('/api/models/echo-old')).body['state'] === 'ready', {
      what: 'the model is ready',
    })
    expect((await callWith(clientKey)).status).toBe(200)
    expect((await callWith(`${clientKey}x`)).status).toBe(401)
    const refused = await fetch(`${env['MUSTER_URL']}/api/models`, { headers: { authorization: `Bearer ${clientKey}` } })
    expect(refused.status).toBe(403)
  })

  it('serves chats, streams and embeddings by a backend of LocalAI, with its templates', async () => {
    const chat = (script: object, more: object = {}) =>
      api.post('/v1/chat/completions', {
        model: 'vision',
        messages: [{ role: 'user', content: `scripted ${JSON.stringify(script)}` }],
        ...more,
      })
    const told = await chat({ tell: 'request' })
    expect(told.status, told.text).toBe(200)
    const { choices } = JSON.parse(told.text) as { choices: { message: { content: string } }[] }
    expect(JSON.parse(choices[0]?.message.content ?? '')).toMatchObject({
      Prompt: 'User: scripted {"tell":"request"}\nAssistant:',
      StopPrompts: ['</s>'],
    })
    expect((await chat({ tokens: 2 }, { stream: true })).text).toMatch(/token-1[^]*data: \[DONE\]/)
    expect((await api.post('/v1/embeddings', { model: 'vision', input: 'ab' })).body).toMatchObject({ data: [{ embedding: [2, 0.5, -1] }] })
  })

  it('serves files of galleries from the old models directory, without a download', async () => {
    await api.post('/api/models/embed/load', {})
    await waitFor(async () => (await api.get('/api/models/embed')).body['state'] === 'ready', { what: 'the model is ready' })
  })

  it('changes nothing at the second run', async () => {
    const before = await stateOf()
    const { report } = await fromDirectory()
    expect(new Set(report.items.map(({ outcome }) => outcome))).toEqual(new Set(['unchanged', 'refused']))
    expect(await stateOf()).toEqual(before)
    const text = await muster('import', 'localai', site, '--scheduling', join(site, 'scheduling.yaml'))
    expect(text.stdout).toMatch(/^models: 10 unchanged, 1 refused$/m)
    expect(text.stdout).toContain('Nothing changed.')
  })

  it('keeps a model that an administrator changed, unless it is told to replace it', async () => {
    await api.put('/api/models/rerank', { backend: 'rerankers', context_size: 99 })
    expect((await fromDirectory()).report.items).toContainEqual(expect.objectContaining({ name: 'rerank', outcome: 'kept' }))
    expect((await api.get('/api/models/rerank')).body).toMatchObject({ config: { context_size: 99 } })
    expect((await fromDirectory('--replace')).report.items).toContainEqual(expect.objectContaining({ name: 'rerank', outcome: 'changed' }))
    expect((await fromDirectory()).report.items).toContainEqual(expect.objectContaining({ name: 'rerank', outcome: 'unchanged' }))
  })

  it('finishes a model that a killed import left without its files', async () => {
    const { body } = await api.get('/api/models/with-options')
    const config = body['config'] as unknown as { files: unknown[] }
    expect(config.files).toHaveLength(1)
    await api.put('/api/models/with-options', { ...config, files: [] })
    expect((await fromDirectory()).report.items).toContainEqual({
      kind: 'model',
      name: 'with-options',
      outcome: 'changed',
      message: '1 file sent',
    })
    expect((await api.get('/api/models/with-options')).body['config']).toEqual(config)
  })

  it('imports only the parts that are selected', async () => {
    await api.put('/api/models/image/scheduling', {})
    const result = await importSite(site, '--only', 'scheduling', '--scheduling', join(site, 'more-rules.yaml'))
    expect(result.report.items).toEqual([{ kind: 'scheduling', name: 'image', outcome: 'changed', message: '' }])
    expect((await api.get('/api/models/image')).body).toMatchObject({ config: { scheduling: { max_replicas: 4 } } })
    expect(await muster('import', 'localai', site, '--only', 'everything')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('galleries'),
    })
  })

  it('names files by their path for workers that have the directory', async () => {
    await api.call('DELETE', '/api/models/vision')
    const { report } = await fromDirectory('--files', 'reference')
    expect(report.items).toContainEqual(expect.objectContaining({ name: 'vision', outcome: 'created' }))
    expect((await api.get('/api/models/vision')).body).toMatchObject({
      config: { files: [{ uri: `file://${site}/models/vision.gguf` }, {}] },
    })
  })
})

describe('a running instance', () => {
  const answers: Readonly<Record<string, unknown>> = {
    '/v1/models': { object: 'list', data: [{ id: 'remote' }, { id: 'plain.gguf' }] },
    '/api/models/config-json/remote': {
      name: 'remote',
      backend: 'llama-cpp',
      description: '',
      parameters: { model: 'r.gguf', language: '' },
      stopwords: [],
      template: { chat: '' },
    },
    '/models/available': [
      { name: 'remote', installed: true, files: [{ filename: 'r.gguf', uri: 'huggingface://o/r/r.gguf', sha256: 'd'.repeat(64) }] },
    ],
    '/models/galleries': [{ name: 'remote', url: 'https://gallery.example/remote.yaml', mirrors: [] }],
    '/backends/galleries': [],
    '/api/settings': { api_keys: ['****'], threads: 0 },
    '/api/nodes/scheduling': [{ model_name: 'remote', min_replicas: 0, max_replicas: 3, node_selector: '{"rack":"b2"}' }],
    '/api/nodes': [
      { name: 'gpu-1', labels: { rack: 'b2', 'node.replica-slots': '1' }, vram_budget: '80%' },
      { name: 'gone', labels: { a: '1' } },
    ],
  }
  let server: Server
  let url: string
  const seenKeys = new Set<string | undefined>()
  beforeAll(async () => {
    server = createServer((request, response) => {
      seenKeys.add(request.headers.authorization)
      const answer = answers[request.url ?? '']
      const isAllowed = request.headers.authorization === 'Bearer remote-key'
      response.writeHead(isAllowed ? (answer === undefined ? 404 : 200) : 401, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isAllowed ? (answer ?? { error: {} }) : {}))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  })
  afterAll(() => server.close())

  it('moves in by its API: models, galleries, rules, labels and budgets', async () => {
    const before = { ...env }
    env = { ...env, LOCALAI_API_KEY: 'remote-key,second-key' }
    try {
      const { report, stderr } = await importSite(url)
      expect(report.items, stderr).toEqual([
        { kind: 'gallery', name: 'remote', outcome: 'created', message: expect.any(String) },
        { kind: 'model', name: 'remote', outcome: 'created', message: '' },
        { kind: 'node', name: 'gpu-1', outcome: 'changed', message: 'rack, VRAM budget' },
        { kind: 'key', name: 'localai-1', outcome: 'created', message: 'scope inference' },
        { kind: 'key', name: 'localai-2', outcome: 'created', message: 'scope inference' },
      ])
      expect(report.losses.map(({ about }) => about)).toEqual(expect.arrayContaining(['plain.gguf', 'gone']))
      expect((await api.get('/api/models/remote')).body).toMatchObject({
        config: { files: [{ uri: 'hf://o/r/r.gguf' }], scheduling: { max_replicas: 3, node_selector: { rack: 'b2' } } },
      })
      expect((await nodesOf(api))[0]).toMatchObject({ labels: { rack: 'b2' } })
      expect((await importSite(url)).report.items.map(({ outcome }) => outcome)).toEqual(Array(5).fill('unchanged'))
    } finally {
      env = before
    }
    expect([...seenKeys]).toEqual(['Bearer remote-key'])
  })

  it('needs its key, which is never a flag', async () => {
    expect(await muster('import', 'localai', url)).toMatchObject({ code: 1, stderr: expect.stringContaining('LOCALAI_API_KEY') })
    expect(await muster('import', 'localai', url, '--api-key', 'x')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--api-key-file'),
    })
  })
})
