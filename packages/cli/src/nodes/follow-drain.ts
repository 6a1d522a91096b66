// Follows a node that is drained until nothing runs there any more, or until it waits for something. What is so is read again
// and again; a controller that is away for a while is no end of it.
import { modelRoutes, type ModelView, nodeRoutes, type NodeView, type ReplicaView } from '@muster/protocol'
import { parseModelName } from '../arguments.ts'
import { CliError } from '../cli-error.ts'
import { isFinal } from '../client/events.ts'
import type { ClientCall } from '../commands/command.ts'
import type { FollowMode } from '../operations/follow-started.ts'
import { asObject } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { untilInterrupted } from '../shell.ts'

const pollMs = 500

export async function followDrain(call: ClientCall, mode: Exclude<FollowMode, { follow: 'no' }>, { id }: NodeView): Promise<void> {
  const { shell, print } = call
  using interrupted = untilInterrupted()
  const limit = mode.follow === 'end' && mode.limitMs !== null ? shell.clock.now() + mode.limitMs : Infinity
  const tell = createDrainPrinter(call)
  let last: DrainReading | null = null
  while (!interrupted.signal.aborted && shell.clock.now() < limit) {
    last = (await readOnce(call, id, tell.lost)) ?? last
    if (last !== null) tell.standing(last.standing)
    if (last !== null && isOver(last.standing, mode)) break
    await shell.clock.sleep(pollMs, interrupted.signal).catch(() => undefined)
  }
  if (print.format === 'json') print.result(last?.raw, () => '')
  end(call, last?.standing ?? null, id)
}

type DrainReading = Readonly<{ standing: DrainStatus; raw: unknown }>

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
    return { standing: drainStatus({ node, replicas, models }), raw: { ...asObject(raw), ...asObject(rawReplicas) } }
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
      // Deleted meanwhile.
      if (!(error instanceof CliError && error.status === 404)) throw error
    }
  }
  return found
}

/** Each thing once, until another is so. */
function createDrainPrinter({ print }: ClientCall) {
  let line = ''
  const told = new Set<string>()
  let isLost = false
  return {
    standing(now: DrainStatus): void {
      isLost = false
      if (print.format === 'json') return
      if (now.line !== line) print.line(undefined, () => plainText(now.line))
      line = now.line
      for (const reason of now.reasons) {
        if (!told.has(reason)) print.remark(plainText(reason))
        told.add(reason)
      }
    },
    lost(reason: string): void {
      if (!isLost) print.remark(`connection lost (${plainText(reason)}); trying again`)
      isLost = true
    },
  }
}

function end({ shell, print }: ClientCall, standing: DrainStatus | null, id: string): void {
  if (standing?.state === 'drained') return
  if (standing?.state === 'resumed') return shell.fail(1)
  print.remark(`the drain goes on in the background: \`muster nodes show ${id}\` lists what is left, \`muster nodes resume ${id}\` ends it`)
  shell.fail(3)
}

// Pure: how far the draining of a node is, and what is to be said of it.

interface DrainSnapshot {
  readonly node: NodeView
  /** What runs there still. */
  readonly replicas: readonly ReplicaView[]
  /** By name; models that are gone meanwhile are not among them. */
  readonly models: ReadonlyMap<string, ModelView>
}

/** `waiting`: nothing moves until something changes elsewhere. */
type DrainState = 'running' | 'waiting' | 'drained' | 'resumed'

interface DrainStatus {
  readonly state: DrainState
  /** Said when it is another one than before. */
  readonly line: string
  /** What waits, and for what. */
  readonly reasons: readonly string[]
}

function drainStatus({ node, replicas, models }: DrainSnapshot): DrainStatus {
  const standing = (state: DrainState, what: string, reasons: readonly string[] = []): DrainStatus => ({
    state,
    line: `${node.name}: ${what}`,
    reasons,
  })
  if (!node.draining) return standing('resumed', 'it is not draining any more')
  if (replicas.length === 0) return standing('drained', 'no replica is left')
  const left = `${replicas.length} ${replicas.length === 1 ? 'replica' : 'replicas'} left: ${replicas.map(textOf).join(', ')}`
  if (node.status !== 'draining')
    return standing('waiting', left, [`${node.name} is ${node.status} (${node.status_reason}): what runs there ends when it is back`])
  const waits = replicas.map((replica) => waitReason(replica, models.get(replica.model)))
  const reasons = [...new Set(waits.filter((reason) => reason !== null))]
  return standing(waits.includes(null) ? 'running' : 'waiting', left, reasons)
}

const textOf = ({ model, state, in_flight: active }: ReplicaView): string =>
  `${model} (${state}${active === 0 ? '' : `, ${active} ${active === 1 ? 'request' : 'requests'}`})`

/** One that serves on because there is no other place; null: it is on its way. */
function waitReason({ model, state }: ReplicaView, view: ModelView | undefined): string | null {
  if (state !== 'ready' || view === undefined || view.failure === null) return null
  return `${model} serves on until it has another place: ${view.failure.message}`
}
