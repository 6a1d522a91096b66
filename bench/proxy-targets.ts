// The targets of the proxy benchmark: each path from a client to the same backend program, in its own processes.
import { spawnSync } from 'node:child_process'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createTestDatabase,
  freePort,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  startTestPostgres,
  waitFor,
  type Processes,
} from '@muster/testkit'

export interface Target {
  readonly name: string
  readonly url: string
  /** Processes of the hops between client and backend; nginx works in children of its own, a worker's children are backends. */
  readonly pids: readonly number[]
  readonly headers: Readonly<Record<string, string>>
  readonly note: string
  readonly hasChildren?: boolean
}
type RunningTargets = Readonly<{ targets: readonly Target[]; skipped: readonly string[]; stop(): Promise<void> }>

const here = import.meta.dirname

async function listening(processes: Processes, args: readonly string[]): Promise<{ url: string; pid: number }> {
  const started = await processes.start('node', { args: [...args] })
  const [, port = ''] = await started.waitForOutput(/listens (\d+)/, 20_000)
  return { url: `http://127.0.0.1:${port}`, pid: started.pid }
}

export async function startTargets(processes: Processes): Promise<RunningTargets> {
  const directory = await makeTempDir('bench-proxy')
  const backend = await listening(processes, [join(here, 'proxy-backend.mjs')])
  const direct: Target = { name: 'no proxy', url: backend.url, pids: [], headers: {}, note: '' }
  const second = await listening(processes, [join(here, 'proxy-hop.ts'), '--to', backend.url])
  const first = await listening(processes, [join(here, 'proxy-hop.ts'), '--to', second.url])
  const bare: Target = { name: 'bare Node', url: first.url, pids: [first.pid, second.pid], headers: {}, note: 'two hops that only forward' }
  const muster = await startMuster(processes, directory.path)
  const others = await Promise.all(
    [startNginx, startHaproxy].map((start) => start(processes, { directory: directory.path, backend: backend.url })),
  )
  const portkey = await startPortkey(processes, backend.url)
  const found = others.filter((each) => typeof each !== 'string')
  return {
    targets: [direct, muster.target, bare, ...found, portkey],
    skipped: others.filter((each) => typeof each === 'string'),
    async stop() {
      await processes.stopAll()
      await muster.stop()
      await directory.remove()
    },
  }
}

/** A controller and a worker, with a real database, bus, gateway and replica: two hops. */
async function startMuster(processes: Processes, directory: string): Promise<{ target: Target; stop: () => Promise<void> }> {
  const nats = await startNats()
  const postgres = await startTestPostgres()
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const artifact = join(directory, 'bench-backend')
  await mkdir(artifact)
  await copyFile(join(here, 'proxy-backend.mjs'), join(artifact, 'server.mjs'))
  const manifest = {
    name: 'bench',
    version: '1.0.0',
    driver: 'openai-http',
    command: ['{node}', './server.mjs', '--addr', '{addr}'],
    health_path: '/health',
  }
  await writeFile(join(artifact, 'backend.json'), JSON.stringify(manifest))
  const cluster = await startCluster({
    processes,
    directory,
    databaseUrl: database.url,
    natsUrl: nats.url,
    controllers: 1,
    args: ['--auto-approve'],
  })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('one controller was asked for')
  const worker = await cluster.startWorker({ name: 'bench', join: controller.url, token: joinToken })
  const { api } = controller
  await waitFor(async () => (await nodesOf(api))[0]?.status === 'healthy', { what: 'the worker to be healthy', timeoutMs: 30_000 })
  const asked = async (what: Promise<{ status: number; text: string }>): Promise<void> => {
    const { status, text } = await what
    if (status >= 300) throw new Error(`${status} ${text}`)
  }
  await asked(api.post('/api/backends/install', { uri: `file://${artifact}`, name: 'bench' }))
  await waitFor(async () => JSON.stringify((await api.get('/api/backends')).body).includes('"bench"'), {
    what: 'the install',
    timeoutMs: 30_000,
  })
  await asked(api.put('/api/models/bench', { name: 'bench', backend: 'bench' }))
  await waitFor(async () => (await api.post('/v1/chat/completions', { model: 'bench' })).status === 200, {
    what: 'the model to answer',
    timeoutMs: 90_000,
  })
  return {
    target: {
      name: 'Muster',
      url: controller.url,
      pids: [controller.process.pid, worker.pid],
      headers: {},
      note: 'controller and gateway',
    },
    async stop() {
      await database.drop().catch(() => undefined)
      await postgres.stop()
      await nats.stop()
    },
  }
}

type Place = Readonly<{ directory: string; backend: string }>

const isInstalled = (program: string): boolean => spawnSync('which', [program]).status === 0

async function startNginx(processes: Processes, { directory, backend }: Place): Promise<Target | string> {
  if (!isInstalled('nginx')) return 'nginx is not installed (apt-get install --no-install-recommends nginx-light)'
  const hop = async (to: string, name: string): Promise<{ url: string; pid: number }> => {
    const port = await freePort()
    const config = join(directory, `${name}.conf`)
    await writeFile(
      config,
      `daemon off; worker_processes 1; pid ${directory}/${name}.pid; error_log stderr error;
events { worker_connections 8192; }
http { access_log off; client_body_temp_path ${directory}/${name}-body; proxy_temp_path ${directory}/${name}-proxy; fastcgi_temp_path ${directory}/${name}-f; uwsgi_temp_path ${directory}/${name}-u; scgi_temp_path ${directory}/${name}-s;
upstream next { server ${new URL(to).host}; keepalive 2048; }
server { listen 127.0.0.1:${port} backlog=4096; keepalive_requests 1000000; location / { proxy_pass http://next; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }`,
    )
    const started = await processes.start('nginx', { args: ['-c', config] })
    return { url: `http://127.0.0.1:${port}`, pid: started.pid }
  }
  const second = await hop(backend, 'nginx-2')
  const first = await hop(second.url, 'nginx-1')
  return { name: 'nginx', url: first.url, pids: [first.pid, second.pid], headers: {}, note: 'two hops, no buffering', hasChildren: true }
}

async function startHaproxy(processes: Processes, { directory, backend }: Place): Promise<Target | string> {
  if (!isInstalled('haproxy')) return 'haproxy is not installed (apt-get install --no-install-recommends haproxy)'
  const hop = async (to: string, name: string): Promise<{ url: string; pid: number }> => {
    const port = await freePort()
    const config = join(directory, `${name}.cfg`)
    await writeFile(
      config,
      `global\n  nbthread 1\n  maxconn 8192\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n  http-reuse always\nlisten proxy\n  bind 127.0.0.1:${port}\n  server next ${new URL(to).host}\n`,
    )
    const started = await processes.start('haproxy', { args: ['-db', '-f', config] })
    return { url: `http://127.0.0.1:${port}`, pid: started.pid }
  }
  const second = await hop(backend, 'haproxy-2')
  const first = await hop(second.url, 'haproxy-1')
  return { name: 'haproxy', url: first.url, pids: [first.pid, second.pid], headers: {}, note: 'two hops' }
}

async function startPortkey(processes: Processes, backend: string): Promise<Target> {
  const port = await freePort()
  const program = join(here, '..', 'node_modules', '@portkey-ai', 'gateway', 'build', 'start-server.js')
  const started = await processes.start('node', { args: [program, '--headless', `--port=${port}`] })
  const url = `http://127.0.0.1:${port}`
  await waitFor(async () => (await fetch(url)).status < 500, { what: 'portkey to listen', timeoutMs: 30_000 })
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${backend}/v1`, authorization: 'Bearer none' }
  return { name: 'Portkey gateway', url, pids: [started.pid], headers, note: 'one hop; no gateway on the worker' }
}
