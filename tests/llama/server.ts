// The llama backend as a worker would start it, with the tiny model in it, and OpenAI's own client to talk to it.
import { join } from 'node:path'
import OpenAI from 'openai'
import { freePort, waitFor, type Processes, type StartedProcess } from '../../packages/testkit/src/index.ts'

export const repository = join(import.meta.dirname, '..', '..')
const tinyModel = join(repository, 'models', 'tiny', 'tiny.gguf')

export interface LlamaOptions {
  readonly directory?: string
  readonly options?: object
  readonly env?: Readonly<Record<string, string>>
}

export interface LlamaServer {
  readonly url: string
  readonly process: StartedProcess
  readonly openai: OpenAI
  health(): Promise<{ status: number; body: Record<string, unknown> }>
  metric(name: string): Promise<number>
  post(path: string, body: unknown): Promise<{ status: number; error: Record<string, unknown> }>
}

export const environment = (options: object, env: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  MUSTER_MODEL_NAME: 'tiny',
  MUSTER_MODEL_PATH: tinyModel,
  MUSTER_CONTEXT_SIZE: '512',
  // One: the tests beside this one need a core too.
  MUSTER_MODEL_OPTIONS: JSON.stringify({ threads: 1, ...options }),
  ...env,
})

/** Listens, but may still load. */
export async function startLlama(processes: Processes, { directory, options = {}, env }: LlamaOptions = {}): Promise<LlamaServer> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const started = await processes.start(process.execPath, {
    args: ['server.mjs', '--addr', `127.0.0.1:${port}`],
    cwd: directory ?? join(repository, 'backends', 'llama'),
    env: environment(options, env),
  })
  return {
    url,
    process: started,
    openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 20_000 }),
    async health() {
      const response = await fetch(`${url}/health`)
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    },
    async metric(name) {
      const text = await (await fetch(`${url}/metrics`)).text()
      return Number(new RegExp(`^muster_llama_${name} (.*)$`, 'm').exec(text)?.[1])
    },
    async post(path, body) {
      const text = typeof body === 'string' ? body : JSON.stringify(body)
      const response = await fetch(`${url}${path}`, { method: 'POST', body: text })
      const answer = (await response.json()) as { error?: Record<string, unknown> }
      return { status: response.status, error: answer.error ?? {} }
    },
  }
}

export async function untilLoaded(llama: LlamaServer): Promise<LlamaServer> {
  await waitFor(async () => (await llama.health()).status === 200, { what: 'the model to be loaded' })
  return llama
}
