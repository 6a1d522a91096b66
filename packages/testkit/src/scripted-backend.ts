// The scripted backend (testkit/backends/scripted): a real program that behaves as a test scripts it.
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A directory with a backend.json: install it as `file://…`, pack it, or start it. */
export const scriptedBackend = join(import.meta.dirname, '..', 'backends', 'scripted')

/** How a process starts and lives; given as the model's `options`. */
export type ScriptedLife = Readonly<{
  start_delay_ms?: number
  /** Said on stderr before it exits with `exit_code` (1), or dies by `crash_signal`. */
  crash_at_start?: string
  crash_signal?: 'SIGSEGV' | 'SIGKILL' | 'SIGABRT'
  exit_code?: number
  /** Lives, and listens nowhere. */
  never_listen?: boolean
  /** Takes connections and never answers about its health. */
  hang_at_readiness?: boolean
  unhealthy?: boolean
  /** Says that it serves another model. */
  claims_model?: string
  ignore_sigterm?: boolean
  /** Leaves a process in a session of its own. */
  daemonise?: boolean
  log_flood?: boolean
  /** One line of that length without an end. */
  log_line_bytes?: number
  exit_after_requests?: number
  exit_after_ms?: number
}>

/** How it answers one request; also allowed among the model's `options`, for all of them. */
export type ScriptedAnswer = Readonly<{
  tokens?: number
  delay_ms?: number
  /** Every token is this. */
  say?: string
  /** Returns the request, as JSON. */
  echo?: boolean
  answer_after_ms?: number
  /** Computes and answers nobody meanwhile, not even about its health. */
  block_ms?: number
  hang?: boolean
  die?: boolean
  /** After so many tokens: the process dies; the connection is cut; the answer ends as if it were whole; nothing more comes. */
  die_after?: number
  cut_after?: number
  end_after?: number
  hang_after?: number
  never_end?: boolean
  garbage?: boolean
  garbage_body?: boolean
  /** Refuses with this status. */
  status?: number
  message?: string
}>

/** The answer of `GET /scripted/state`; the first six fields are in every answer, as `scripted`. */
export type ScriptedState = Readonly<{
  build: string
  replica_id: string | null
  model: string
  pid: number
  requests: number
  /** Requests whose caller went away before the end of the answer. */
  aborted: number
  answered: number
  running: number
  model_path: string | null
  context_size: string | null
  options: Record<string, unknown>
  cwd: string
  env: string[]
}>

/** The text of a request that is answered in this way: a message's content, a prompt, an input. */
export const scripted = (how: ScriptedAnswer): string => `scripted ${JSON.stringify(how)}`

/** Behavior of every process of a build, for any model. `only_below`: only where its tree's path contains this. */
export type ScriptedHabits = ScriptedLife & ScriptedAnswer & Readonly<{ only_below?: string }>
export type ScriptedBuild = Readonly<{ version: string; name?: string; habits?: ScriptedHabits }>

/** Another build of it in a new directory. */
export async function copyScriptedBackend(directory: string, { habits, ...build }: ScriptedBuild): Promise<void> {
  await cp(scriptedBackend, directory, { recursive: true })
  const path = join(directory, 'backend.json')
  const description: Record<string, unknown> = JSON.parse(await readFile(path, 'utf8'))
  const env = habits === undefined ? {} : { env: { SCRIPTED_BUILD: JSON.stringify(habits) } }
  await writeFile(path, `${JSON.stringify({ ...description, ...build, ...env }, null, 2)}\n`)
}
