// Follows the drain of a node until no replica is left, or until the remaining ones wait. Polls the controller, and
// survives its restarts.
import { modelRoutes, type ModelView, nodeRoutes, type NodeView, type ReplicaView } from '@muster/protocol'
import { parseModelName } from '../arguments.ts'
import { CliError } from '../cli-error.ts'
import { isFinal } from '../client/events.ts'
import type { ClientCall } from '../commands/command.ts'
import type { FollowMode } from '../operations/follow-started.ts'
import { asObject } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt } from '../shell.ts'

const pollMs = 500

export async function followDrain(call: ClientCall, mode: Exclude<FollowMode, { follow: 'no' }>, { id }: NodeView): Promise<void> {
  const { shell, print } = call
  using interrupted = listenForInterrupt()
  const limit = mode.follow === 'end' && mode.limitMs !== null ? shell.clock.now() + mode.limitMs : Infinity
  const printer = createDrainPrinter(call)
  let last: DrainReading | null = null
  while (!interrupted.signal.aborted && shell.clock.now() < limit) {
    last = (await readOnce(call, id, printer.connectionLost)) ?? last
    if (last !== null) printer.status(last.status)
    if (last !== null && isOver(last.status, mode)) break
    await shell.clock.sleep(pollMs, interrupted.signal).catch(() => undefined)
  }
  if (print.format === 'json') print.result(last?.raw, () => '')
  end(call, last?.status ?? null, id)
}

type DrainReading = Readonly<{ status: DrainStatus; raw: unknown }>

const isOver = ({ state }: DrainStatus, { follow }: FollowMode): boolean =>
  state === 'drained' || state === 'resumed' || (state === 'waiting' && follow === 'running')

async function readOnce({ api }: ClientCall, id: NodeView['id'], lost: (reason: string) => void): Promise<DrainReading | null> {
  try {
    const params = { id }
    const { raw, body: node } = await api.call(nodeRoutes.get, { params })
    const { raw: rawReplicas, body } = await api.call(nodeRoutes.models, { params })
    const replicas = body.replicas.filter(({ state }) => state !== 'exited')
    const models = await readModels(
      api,
      replicas.map(({ model }) => model),
    )
    return { status: drainStatus({ node, replicas, models }), raw: { ...asObject(raw), ...asObject(rawReplicas) } }
  } catch (error) {
    if (isFinal(error) || !(error instanceof CliError)) throw error
    lost(error.message)
    return null
  }
}

async function readModels(api: ClientCall['api'], names: readonly string[]): Promise<DrainSnapshot['models']> {
  const found = new Map<string, ModelView>()
  for (const name of new Set(names)) {
    try {
      found.set(name, (await api.call(modelRoutes.get, { params: { name: parseModelName(name) } })).body)
    } catch (error) {
      // Deleted in the meantime.
      if (!(error instanceof CliError && error.status === 404)) throw error
    }
  }
  return found
}

/** Prints each line and each reason once. */
function createDrainPrinter({ print }: ClientCall) {
  let line = ''
  const printed = new Set<string>()
  let isLost = false
  return {
    status(now: DrainStatus): void {
      isLost = false
      if (print.format === 'json') return
      if (now.line !== line) print.line(undefined, () => plainText(now.line))
      line = now.line
      for (const reason of now.reasons) {
        if (!printed.has(reason)) print.remark(plainText(reason))
        printed.add(reason)
      }
    },
    connectionLost(reason: string): void {
      if (!isLost) print.remark(`connection lost (${plainText(reason)}); retrying`)
      isLost = true
    },
  }
}

function end({ shell, print }: ClientCall, status: DrainStatus | null, id: string): void {
  if (status?.state === 'drained') return
  if (status?.state === 'resumed') return shell.fail(1)
  print.remark(
    `the drain continues in the background: \`muster nodes show ${id}\` lists the replicas that are left, \`muster nodes resume ${id}\` ends it`,
  )
  shell.fail(3)
}

interface DrainSnapshot {
  readonly node: NodeView
  /** The replicas that still run there. */
  readonly replicas: readonly ReplicaView[]
  /** By name; without models that were deleted in the meantime. */
  readonly models: ReadonlyMap<string, ModelView>
}

/** `waiting`: no replica can move until something changes elsewhere. */
type DrainState = 'running' | 'waiting' | 'drained' | 'resumed'

interface DrainStatus {
  readonly state: DrainState
  /** Printed when it changed. */
  readonly line: string
  /** Why replicas wait. */
  readonly reasons: readonly string[]
}

function drainStatus({ node, replicas, models }: DrainSnapshot): DrainStatus {
  const status = (state: DrainState, text: string, reasons: readonly string[] = []): DrainStatus => ({
    state,
    line: `${node.name}: ${text}`,
    reasons,
  })
  if (!node.draining) return status('resumed', 'no longer draining')
  if (replicas.length === 0) return status('drained', 'drained, safe to switch off: no replica is left')
  const left = `${replicas.length} ${replicas.length === 1 ? 'replica' : 'replicas'} left: ${replicas.map(textOf).join(', ')}`
  if (node.status !== 'draining')
    return status('waiting', left, [`${node.name} is ${node.status} (${node.status_reason}): its replicas end when it is back`])
  const waits = replicas.map((replica) => waitReason(replica, models.get(replica.model)))
  const reasons = [...new Set(waits.filter((reason) => reason !== null))]
  return status(waits.includes(null) ? 'running' : 'waiting', left, reasons)
}

const textOf = ({ model, state, in_flight: active }: ReplicaView): string =>
  `${model} (${state}${active === 0 ? '' : `, ${active} ${active === 1 ? 'request' : 'requests'}`})`

/** The reason why a replica keeps serving; null: it is moving. */
function waitReason({ model, state }: ReplicaView, view: ModelView | undefined): string | null {
  if (state !== 'ready' || view === undefined || view.failure === null) return null
  return `${model} keeps serving until another node has room: ${view.failure.message}`
}
