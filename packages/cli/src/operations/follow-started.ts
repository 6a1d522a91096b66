// Follows the operations that a command started, and sets the exit code by their outcome.
import { Option } from 'commander'
import { parseDuration, errorMessage } from '@muster/host'
import type { OperationId, OperationState, OperationView } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { createPaint } from '../output/segments.ts'
import { listenForInterrupt } from '../shell.ts'
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
  /** The server's answer, for --no-wait with JSON. */
  readonly raw: unknown
  readonly ids: readonly OperationId[]
  /** Some operations could not be started; the reasons are printed already. */
  readonly hasFailed?: boolean
}

export async function followStarted(call: ClientCall, mode: FollowMode, { raw, ids, hasFailed = false }: StartedOperations): Promise<void> {
  const { print, shell } = call
  if (mode.follow === 'no') {
    print.result(raw, () => ids.join('\n'))
    if (hasFailed) shell.fail(1)
    return
  }
  const { latest, isDetached } = await follow(call, mode, ids)
  if (print.format === 'json') print.result(jsonOf(ids, latest), () => '')
  const code = hasFailed ? 1 : exitCodeOfStates(ids.map((id) => latest.get(id)?.operation.state ?? null))
  printNextSteps(call, { latest, ids, isDetached })
  if (code !== 0) shell.fail(code)
}

/** For `ops watch`: a stream of objects with JSON, and always to the end. */
export async function watchOperations(call: ClientCall, ids: readonly OperationId[]): Promise<void> {
  const view = call.print.format === 'json' ? createOperationObjects(call.print) : undefined
  const { latest, isDetached } = await follow(call, { follow: 'end', limitMs: null }, ids, view)
  printNextSteps(call, { latest, ids, isDetached })
  const code = exitCodeOfStates(ids.map((id) => latest.get(id)?.operation.state ?? null))
  if (code !== 0) call.shell.fail(code)
}

type LatestOperations = ReadonlyMap<OperationId, ReceivedOperation>

async function follow(
  call: ClientCall,
  mode: Exclude<FollowMode, { follow: 'no' }>,
  ids: readonly OperationId[],
  view: ProgressView = viewFor(call),
): Promise<{ latest: LatestOperations; isDetached: boolean }> {
  const { api, shell } = call
  using interrupted = listenForInterrupt()
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
    const latest = await followOperations(deps, { ids, isOver: (operation) => isOver(operation, until) })
    return { latest, isDetached: interrupted.signal.aborted }
  } finally {
    ended.abort()
  }
}

function viewFor({ print, shell: { terminal, clock } }: ClientCall): ProgressView {
  if (print.format === 'json') return silentView
  if (terminal.screen === null) return createOperationLines({ print, clock })
  return createOperationScreen({ screen: terminal.screen, clock, paint: createPaint(terminal.colors.out) })
}

/** The latest state of the one operation, or of all. */
function jsonOf(ids: readonly OperationId[], latest: LatestOperations): unknown {
  const raws = ids.map((id) => latest.get(id)?.raw ?? { id })
  return raws.length === 1 ? raws[0] : { operations: raws }
}

/** Suggests the next command for each operation that is not done. */
function printNextSteps(
  { print }: ClientCall,
  facts: { latest: LatestOperations; ids: readonly OperationId[]; isDetached: boolean },
): void {
  for (const id of facts.ids) {
    const operation = facts.latest.get(id)?.operation
    const title = operation === undefined ? id : titleOf(operation)
    const state = operation?.state ?? 'running'
    if (state === 'failed')
      print.remark(`${title} failed: \`muster ops retry ${id}\` retries it, \`muster ops show ${id}\` shows the details`)
    if (state === 'cancelled') print.remark(`${title} was cancelled`)
    if (state === 'running' || state === 'background')
      print.remark(`${facts.isDetached ? 'detached; ' : ''}${title} continues in the background: \`muster ops watch ${id}\` follows it`)
  }
}

export type FollowMode =
  | { readonly follow: 'no' }
  /** Until it leaves `running`. */
  | { readonly follow: 'running' }
  /** Until every node has its outcome, or the time is over. */
  | { readonly follow: 'end'; readonly limitMs: number | null }

export const followOptions = (): Option[] => [
  new Option('--wait [duration]', 'follow to the end, also in the background; --wait=30m sets a limit'),
  new Option('--no-wait', 'print the id of the operation, and do not follow'),
]

export function followMode({ option, flag, isOff }: Pick<ClientCall, 'option' | 'flag' | 'isOff'>): FollowMode {
  if (isOff('wait')) return { follow: 'no' }
  const given = option('wait')
  if (given === undefined && !flag('wait')) return { follow: 'running' }
  return { follow: 'end', limitMs: given === undefined || given === '' ? null : parseLimit(given) }
}

function parseLimit(text: string): number | null {
  try {
    // 0 means the default, as for every setting: no limit.
    return parseDuration(text) || null
  } catch (error) {
    throw usageError(`--wait: ${errorMessage(error)}`)
  }
}

/** `settled`: until every node has its outcome. `background`: until the operation leaves `running`. */
type FollowUntil = 'settled' | 'background'

const isInProgress = (state: OperationState): boolean => state === 'running' || state === 'background'

export const isOver = ({ state }: Pick<OperationView, 'state'>, until: FollowUntil): boolean =>
  until === 'settled' ? !isInProgress(state) : state !== 'running'

/** The worst of all: failed before in progress before done. Null: unknown. */
export function exitCodeOfStates(states: readonly (OperationState | null)[]): 0 | 1 | 3 {
  if (states.some((state) => state === 'failed' || state === 'cancelled')) return 1
  return states.some((state) => state === null || isInProgress(state)) ? 3 : 0
}
