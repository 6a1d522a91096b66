// A cluster of real processes: controllers on one PostgreSQL and one NATS, and workers that join them.
import { join } from 'node:path'
import { createApiClient, type ApiClient } from './api-client.ts'
import { freePort } from './free-port.ts'
import type { Processes, StartedProcess } from './processes.ts'
import { waitFor } from './wait-for.ts'

export const adminKey = 'test-admin-key-0123456789abcdef'
export const joinToken = 'test-join-token-0123456789abcdef'

export interface ClusterOptions {
  readonly processes: Processes
  readonly directory: string
  readonly databaseUrl: string
  readonly natsUrl: string
  readonly controllers: number
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** The address of controllers; loopback by default. */
  readonly host?: string
}
export interface RunningController {
  readonly api: ApiClient
  readonly url: string
  readonly dataDir: string
  process: StartedProcess
}
export interface WorkerOptions {
  readonly name: string
  readonly join: string
  /** Given the first time only; a worker that is known needs none. */
  readonly token?: string
  readonly args?: readonly string[]
  /** A network namespace to run in. */
  readonly within?: string
  readonly env?: Readonly<Record<string, string>>
}

/** A node as the API shows it, as far as tests look. */
export interface SeenNode {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly status_reason: string
  readonly last_seen_at: string | null
}

export async function nodesOf(api: ApiClient): Promise<SeenNode[]> {
  const { status, body, text } = await api.get('/api/nodes')
  if (status !== 200) throw new Error(`GET /api/nodes: ${status} ${text}`)
  return body['nodes'] as unknown as SeenNode[]
}

const secrets = { MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken }

export async function startCluster(options: ClusterOptions) {
  const { processes, directory } = options
  const launch = ({ url, dataDir }: Pick<RunningController, 'url' | 'dataDir'>): Promise<StartedProcess> =>
    processes.muster(
      [
        'controller',
        '--host',
        new URL(url).hostname,
        '--port',
        new URL(url).port,
        '--data-dir',
        dataDir,
        '--nats-url',
        options.natsUrl,
        ...(options.args ?? []),
      ],
      { env: { ...secrets, MUSTER_DATABASE_URL: options.databaseUrl, MUSTER_DRAIN_DELAY: '0', ...options.env } },
    )
  const startController = async (index: number): Promise<RunningController> => {
    const dataDir = join(directory, `controller-${index}`)
    const url = `http://${options.host ?? '127.0.0.1'}:${await freePort()}`
    return { api: createApiClient(url, adminKey), url, dataDir, process: await launch({ url, dataDir }) }
  }
  const controllers = await Promise.all(Array.from({ length: options.controllers }, (_, index) => startController(index)))
  await Promise.all(controllers.map((controller) => untilReady(controller)))

  return {
    controllers,
    /** At the same address, after it ended. */
    async restartController(controller: RunningController): Promise<void> {
      controller.process = await launch(controller)
      await untilReady(controller)
    },
    startWorker: (worker: WorkerOptions): Promise<StartedProcess> =>
      processes.muster(
        [
          'worker',
          ...['--join', worker.join, '--name', worker.name, '--data-dir', join(directory, `worker-${worker.name}`)],
          ...(worker.token === undefined ? [] : ['--token', worker.token]),
          ...(worker.args ?? []),
        ],
        { ...(worker.within === undefined ? {} : { within: worker.within }), ...(worker.env === undefined ? {} : { env: worker.env }) },
      ),
  }
}

export async function untilReady(controller: { api: ApiClient; process: StartedProcess }): Promise<void> {
  await waitFor(
    async () => {
      if (controller.process.hasExited()) throw new Error(`the controller ended:\n${controller.process.output()}`)
      return (await controller.api.get('/readyz').catch(() => null))?.status === 200
    },
    { what: `${controller.api.url}/readyz to be 200` },
  )
}
