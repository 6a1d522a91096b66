// The second half of every command that starts operations: follows them, and ends with what became of them.
import { Option } from 'commander'
import { parseDuration } from '@muster/host'
import type { OperationId, OperationState, OperationView } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { createPaint } from '../output/segments.ts'
import { untilInterrupted } from '../shell.ts'
import { titleOf } from './describe-operation.ts'
import { followOperations } from './follow-operations.ts'
import {
  createOperationLines,
  createOperationObjects,
  createOperationScreen,
  type ProgressView,
  type ReceivedOperation,
  silentView,
} from './progress-views.ts'

export interface StartedOperations {
  /** What the server answered, for --no-wait with JSON. */
  readonly raw: unknown
  readonly ids: readonly OperationId[]
  /** Some of what was asked could not be started, which has been told. */
  readonly hasFailed?: boolean
}

export async function followStarted(call: ClientCall, mode: FollowMode, { raw, ids, hasFailed = false }: StartedOperations): Promise<void> {
  const { print, shell } = call
  if (mode.follow === 'no') {
    print.result(raw, () => ids.join('\n'))
    if (hasFailed) shell.fail(1)
    return
  }
  const { seen, isDetached } = await follow(call, mode, ids)
  if (print.format === 'json') print.result(jsonOf(ids, seen), () => '')
  const code = hasFailed ? 1 : exitCodeOfStates(ids.map((id) => seen.get(id)?.operation.state ?? null))
  printNextSteps(call, { seen, ids, isDetached })
  if (code !== 0) shell.fail(code)
}

/** For `ops watch`: a stream of objects with JSON, and always to the end. */
export async function watchOperations(call: ClientCall, ids: readonly OperationId[]): Promise<void> {
  const view = call.print.format === 'json' ? createOperationObjects(call.print) : undefined
  const { seen, isDetached } = await follow(call, { follow: 'end', limitMs: null }, ids, view)
  printNextSteps(call, { seen, ids, isDetached })
  const code = exitCodeOfStates(ids.map((id) => seen.get(id)?.operation.state ?? null))
  if (code !== 0) call.shell.fail(code)
}

type Seen = ReadonlyMap<OperationId, ReceivedOperation>

async function follow(
  call: ClientCall,
  mode: Exclude<FollowMode, { follow: 'no' }>,
  ids: readonly OperationId[],
  view: ProgressView = viewFor(call),
): Promise<{ seen: Seen; isDetached: boolean }> {
  const { api, shell } = call
  using interrupted = untilInterrupted()
  const limit = new AbortController()
  const ended = new AbortController()
  if (mode.follow === 'end' && mode.limitMs !== null)
    void shell.clock.sleep(mode.limitMs, ended.signal).then(
      () => limit.abort(),
      () => undefined,
    )
  const signal = AbortSignal.any([interrupted.signal, limit.signal])
  const until = mode.follow === 'end' ? 'settled' : 'background'
  try {
    const deps = { api, clock: shell.clock, signal, view }
    const seen = await followOperations(deps, { ids, isOver: (operation) => isOver(operation, until) })
    return { seen, isDetached: interrupted.signal.aborted }
  } finally {
    ended.abort()
  }
}

function viewFor({ print, shell: { terminal, clock } }: ClientCall): ProgressView {
  if (print.format === 'json') return silentView
  if (terminal.screen === null) return createOperationLines({ print, clock })
  return createOperationScreen({ screen: terminal.screen, clock, paint: createPaint(terminal.colours.out) })
}

/** The one operation, or all of them, as they were seen last. */
function jsonOf(ids: readonly OperationId[], seen: Seen): unknown {
  const raws = ids.map((id) => seen.get(id)?.raw ?? { id })
  return raws.length === 1 ? raws[0] : { operations: raws }
}

/** Of what is not done, the next command. */
function printNextSteps({ print }: ClientCall, told: { seen: Seen; ids: readonly OperationId[]; isDetached: boolean }): void {
  for (const id of told.ids) {
    const operation = told.seen.get(id)?.operation
    const title = operation === undefined ? id : titleOf(operation)
    const state = operation?.state ?? 'running'
    if (state === 'failed')
      print.remark(`${title} failed: \`muster ops retry ${id}\` tries again where it did, \`muster ops show ${id}\` shows all`)
    if (state === 'cancelled') print.remark(`${title} was cancelled`)
    if (state === 'running' || state === 'background')
      print.remark(`${told.isDetached ? 'detached; ' : ''}${title} goes on in the background: \`muster ops watch ${id}\` follows it`)
  }
}

// The options of commands that follow what they started, and what they mean.

export type FollowMode =
  | { readonly follow: 'no' }
  /** Until it leaves `running`. */
  | { readonly follow: 'running' }
  /** Until every node has its outcome, or the time is over. */
  | { readonly follow: 'end'; readonly limitMs: number | null }

export const followOptions = (): Option[] => [
  new Option('--wait [duration]', 'follow to the very end, also what goes on in the background; --wait=30m: at most so long'),
  new Option('--no-wait', 'print the id of the operation, and follow nothing'),
]

export function followMode({ option, flag, isOff }: Pick<ClientCall, 'option' | 'flag' | 'isOff'>): FollowMode {
  if (isOff('wait')) return { follow: 'no' }
  const given = option('wait')
  if (given === undefined && !flag('wait')) return { follow: 'running' }
  return { follow: 'end', limitMs: given === undefined || given === '' ? null : parseLimit(given) }
}

function parseLimit(text: string): number | null {
  try {
    // As everywhere, 0 means the default: no limit.
    return parseDuration(text) || null
  } catch (error) {
    throw usageError(`--wait: ${error instanceof Error ? error.message : String(error)}`)
  }
}

// Pure: when an operation has been followed long enough, and what exit code that makes.

/** `settled`: until every node has its outcome. `background`: until nothing more happens that is worth looking at. */
type FollowUntil = 'settled' | 'background'

const isGoingOn = (state: OperationState): boolean => state === 'running' || state === 'background'

export const isOver = ({ state }: Pick<OperationView, 'state'>, until: FollowUntil): boolean =>
  until === 'settled' ? !isGoingOn(state) : state !== 'running'

/** The worst of all: failed before still going on before done. Null: nothing is known of it. */
export function exitCodeOfStates(states: readonly (OperationState | null)[]): 0 | 1 | 3 {
  if (states.some((state) => state === 'failed' || state === 'cancelled')) return 1
  return states.some((state) => state === null || isGoingOn(state)) ? 3 : 0
}
