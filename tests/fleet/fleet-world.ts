// A cluster that serves: real controllers and workers as processes of their own, one PostgreSQL, one NATS, and a gallery
// with the scripted backend. Processes of backends live in groups of their own and are counted by where they run.
import { readdir, readlink, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  adminKey,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  scripted,
  scriptedBackend,
  startCluster,
  startNats,
  waitFor,
  type ApiAnswer,
  type ApiClient,
  type NatsServer,
  type RunningController,
  type ScriptedAnswer,
  type ScriptedLife,
  type StartedProcess,
} from '@muster/testkit'

export type SeenReplica = Readonly<{
  id: string
  node_name: string
  state: string
  reachable: boolean
  in_flight: number
  backend_digest: string | null
  revision: string
}>
export type SeenModel = Readonly<{ state: string; replicas_ready: number; failure: null | { code: string; message: string } }>
export type Scripted = Readonly<{ build: string; replica_id: string; model: string; pid: number; aborted: number }>

export interface Fleet extends AsyncDisposable {
  readonly directory: string
  readonly databaseUrl: string
  readonly nats: NatsServer
  readonly controllers: readonly RunningController[]
  readonly api: ApiClient
  readonly workers: ReadonlyMap<string, StartedProcess>
  /** Also again, after it was killed: it finds its data directory. */
  startWorker(name: string, args?: readonly string[], within?: string): Promise<StartedProcess>
  /** At the same address, after it ended. */
  restartController(controller: RunningController): Promise<void>
  /** A model on the scripted backend that behaves like this. */
  putModel(name: string, life?: ScriptedLife & ScriptedAnswer, more?: object): Promise<void>
  model(name: string): Promise<SeenModel>
  replicas(name: string): Promise<SeenReplica[]>
  until(name: string, is: (model: SeenModel) => boolean, timeoutMs?: number): Promise<SeenModel>
  ask(model: string, script?: ScriptedAnswer, options?: AskOptions): Promise<ApiAnswer>
  stream(model: string, script?: ScriptedAnswer, options?: StreamOptions): Promise<ReadStream>
  /** Pids of every process that runs from a worker's trees. */
  backendProcesses(): Promise<number[]>
}
export type AskOptions = Readonly<{ of?: RunningController }>
export type StreamOptions = AskOptions & Readonly<{ onText?: (text: string) => void }>
/** `isWhole`: the connection was not cut before the last chunk. */
export type ReadStream = Readonly<{ status: number; text: string; isWhole: boolean }>

export type FleetOptions = Readonly<{
  postgresUrl: string
  controllers?: number
  workers?: readonly string[]
  args?: readonly string[]
  /** More entries of the gallery. */
  gallery?: readonly object[]
  /** Where the scripted backend comes from; its directory unless told. */
  scriptedUri?: string
  /** Arguments of every worker. */
  workerArgs?: readonly string[]
  /** Where NATS and controllers listen; loopback unless told. */
  host?: string
  /** Approval of later workers; the first workers are approved here. */
  needsApproval?: boolean
}>

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const ending = new AsyncDisposableStack()
  const directory = ending.use(await makeTempDir('serving')).path
  const nats = ending.use(await startNats(options.host === undefined ? {} : { host: options.host }))
  const database = await createTestDatabase({ serverUrl: options.postgresUrl })
  ending.defer(() => database.drop())
  // Processes that a killed worker left, and no worker adopted, end with the test.
  ending.defer(() => endAll(directory))
  const processes = ending.use(createProcesses())
  const gallery = join(directory, 'gallery.json')
  const entries = [{ name: 'scripted', uri: options.scriptedUri ?? pathToFileURL(scriptedBackend).href }, ...(options.gallery ?? [])]
  await writeFile(gallery, JSON.stringify(entries))
  const { controllers, startWorker, restartController } = await startCluster({
    ...{ processes, directory, databaseUrl: database.url, natsUrl: nats.url, controllers: options.controllers ?? 1 },
    ...(options.host === undefined ? {} : { host: options.host }),
    args: [
      ...(options.needsApproval === true ? [] : ['--auto-approve']),
      '--allow-source',
      '127.0.0.0/8',
      '--gallery',
      `test=${pathToFileURL(gallery).href}`,
      '--heartbeat-interval',
      '500ms',
      '--node-timeout',
      '3s',
      ...(options.args ?? []),
    ],
  })
  const [first] = controllers
  if (first === undefined) throw new Error('a world has a controller')
  const { api } = first
  const workers = new Map<string, StartedProcess>()
  const world: Fleet = {
    ...{ directory, databaseUrl: database.url, nats, controllers, api, workers, restartController },
    async startWorker(name, args = [], within) {
      const all = ['--gateway-listen', '127.0.0.1:0', ...(options.workerArgs ?? []), ...args]
      const process = await startWorker({ name, join: first.url, token: joinToken, args: all, ...(within === undefined ? {} : { within }) })
      workers.set(name, process)
      return process
    },
    putModel: (name, life = {}, more = {}) => putModel(api, name, { backend: 'scripted', options: life, ...more }),
    model: async (name) => seen(await api.get(`/api/models/${encodeURIComponent(name)}`)) as unknown as SeenModel,
    replicas: async (name) =>
      seen(await api.get(`/api/models/${encodeURIComponent(name)}/replicas`))['replicas'] as unknown as SeenReplica[],
    until: (name, is, timeoutMs = 90_000) =>
      waitFor(
        async () => {
          const model = await world.model(name)
          if (is(model)) return model
          throw new Error(`${JSON.stringify(model)} with ${JSON.stringify(await world.replicas(name))}`)
        },
        { what: `the model ${name}`, timeoutMs },
      ),
    ask: (model, script = {}, { of = first } = {}) => of.api.post('/v1/chat/completions', requestOf(model, script)),
    stream: (model, script = {}, { of = first, onText } = {}) => readStream(of, { ...requestOf(model, script), stream: true }, onText),
    backendProcesses: () => processesBelow(directory),
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
  await Promise.all((options.workers ?? ['one']).map((name) => world.startWorker(name)))
  if (options.needsApproval === true) await approveAll(api, options.workers?.length ?? 1)
  await untilHealthy(world, options.workers?.length ?? 1)
  return world
}

async function approveAll(api: ApiClient, count: number): Promise<void> {
  const joined = await waitFor(
    async () => {
      const nodes = await nodesOf(api)
      return nodes.length === count ? nodes : null
    },
    { what: `${count} nodes that joined` },
  )
  for (const { id } of joined) seen(await api.post(`/api/nodes/${id}/approve`, {}))
}

export async function untilHealthy({ api }: Pick<Fleet, 'api'>, count: number): Promise<void> {
  await waitFor(async () => (await nodesOf(api)).filter(({ status }) => status === 'healthy').length >= count, {
    what: `${count} healthy nodes`,
  })
}

export function scriptedOf(answer: ApiAnswer): Scripted {
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return answer.body['scripted'] as unknown as Scripted
}

const requestOf = (model: string, script: ScriptedAnswer) => ({ model, messages: [{ role: 'user', content: scripted(script) }] })

/** Everything that came, also when it broke off. */
async function readStream({ url }: RunningController, body: object, onText?: (text: string) => void): Promise<ReadStream> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` }
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: JSON.stringify(body) })
  let text = ''
  const decoder = new TextDecoder()
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true })
      onText?.(text)
    }
  } catch {
    return { status: response.status, text, isWhole: false }
  }
  return { status: response.status, text, isWhole: true }
}

async function putModel(api: ApiClient, name: string, config: object): Promise<void> {
  seen(await api.put(`/api/models/${encodeURIComponent(name)}`, config))
}

function seen(answer: ApiAnswer): ApiAnswer['body'] {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`)
  return answer.body
}

/** A backend runs in its tree, so its working directory tells whose it is. */
async function processesBelow(directory: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const found = await Promise.all(
    pids.map(async (pid) => {
      const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '')
      if (!cwd.startsWith(join(directory, 'worker-'))) return []
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
      return / Z /.test(stat.slice(stat.lastIndexOf(')') + 1, stat.lastIndexOf(')') + 4)) ? [] : [pid]
    }),
  )
  return found.flat()
}

async function endAll(directory: string): Promise<void> {
  for (const pid of await processesBelow(directory)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It ended meanwhile.
    }
  }
}
