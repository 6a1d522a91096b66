// The second half of every command that starts operations: follows them, and ends with what became of them.
import type { OperationId } from '@muster/protocol'
import type { ClientCall } from '../commands/client-command.ts'
import { createPaint } from '../output/paint.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { titleOf } from './describe-operation.ts'
import type { FollowMode } from './follow-options.ts'
import { followOperations } from './follow-operations.ts'
import { createOperationLines, createOperationObjects, silentView } from './operation-lines.ts'
import { createOperationScreen } from './operation-screen.ts'
import { exitCodeOfStates, isOver } from './outcome.ts'
import type { ProgressView, ReceivedOperation } from './progress-view.ts'

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
