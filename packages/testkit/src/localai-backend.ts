// The test double of a LocalAI backend (testkit/backends/localai): a real gRPC server that behaves as a test scripts it.
import { copyFile, cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A directory with nothing but a `run.sh` that the world knows of, as LocalAI's images. Runs from here only. */
export const localAiBackend = join(import.meta.dirname, '..', 'backends', 'localai')

/** Given as the model's `options`, or in its prompt (`scripted {…}`). */
export type LocalAiScript = Readonly<{
  load_ms?: number
  /** LoadModel refuses, with this message; or fails as a call. */
  refuse_load?: string
  fail_load?: string
  /** LoadModel prints this and ends the process. */
  die_load?: string
  /** The model that it reports, whatever it was commanded to load. */
  actual_model?: string
  unhealthy?: boolean
  tokens?: number
  delay_ms?: number
  say?: string
  /** One byte per message: characters are split. */
  split?: boolean
  /** The answer as chat deltas; the plain message beside them is `raw`. */
  deltas?: readonly object[]
  hang?: boolean
  die?: boolean
  die_after?: number
  never_end?: boolean
  /** A status of gRPC. */
  refuse?: string
  message?: string
  refuse_after?: number
  per_token?: boolean
  /** The answer of ModelMetadata; without it the call is not implemented. */
  media_marker?: string
  /** Says what it got, instead of tokens: this request, what it loaded, or what it counted. */
  tell?: 'request' | 'load' | 'counts'
}>

/** A copy that runs from anywhere on this machine, so that a worker can install it as `file://…`. */
export async function copyLocalAiBackend(directory: string): Promise<void> {
  await cp(localAiBackend, directory, { recursive: true })
  const proto = join(import.meta.dirname, '..', '..', 'worker', 'src', 'drivers', 'localai-grpc', 'backend.proto')
  await copyFile(proto, join(directory, 'backend.proto'))
  await writeFile(join(directory, 'modules'), `${join(import.meta.dirname, 'localai-backend.ts')}\n`)
}
