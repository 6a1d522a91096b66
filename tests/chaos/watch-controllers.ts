// Reads from each controller, again and again, every open operation, those that have just finished, and now and then one
// that finished long ago.
import { setTimeout as delay } from 'node:timers/promises'
import { request } from './request.ts'
import { wholeOperation, type Clear, type ShownRun, type ShownStatus } from './observation.ts'
import type { Random } from './random.ts'
import type { DiskWatch } from './watch-disks.ts'
import type { ChaosWorld } from './world.ts'

export interface ControllerWatch {
  shown(): ShownRun[]
  clear(): Clear[]
}

export interface SeenNode {
  readonly node_name: string
  readonly status: string
  readonly message: string
  readonly next_retry_at: string | null
  readonly error_code: string | null
  readonly ring: number | null
}
export interface SeenOperation {
  readonly id: string
  readonly model: string | null
  readonly state: string
  readonly finished_at: string | null
  readonly nodes: readonly SeenNode[]
}

export interface WatchOptions {
  readonly world: ChaosWorld
  readonly disks: DiskWatch
  readonly random: Random
  readonly now: () => number
  /** Ids of operations that clients know of. */
  readonly known: () => readonly string[]
}

const everyMs = 250
/** A look that took longer, or came later, says nothing about what was between. */
const promptMs = 400

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export function watchControllers(options: WatchOptions, signal: AbortSignal): ControllerWatch {
  const shown: Mutable<ShownRun>[] = []
  const clear: Mutable<Clear>[] = []
  const running = options.world.controllers.map((_, controller) => watchOne({ ...options, controller, shown, clear }, signal))
  void Promise.all(running)
  return { shown: () => shown, clear: () => clear }
}

type One = WatchOptions & Readonly<{ controller: number; shown: Mutable<ShownRun>[]; clear: Mutable<Clear>[] }>

async function watchOne(one: One, signal: AbortSignal): Promise<void> {
  const runs = new Map<string, Mutable<ShownRun>>()
  const windows = new Map<string, Mutable<Clear>>()
  let active = new Set<string>()
  while (!signal.aborted) {
    const sentAt = one.now()
    const look = await lookAt(one, active).catch(() => null)
    const seenAt = one.now()
    if (look !== null) {
      active = look.active
      for (const operation of look.operations)
        for (const { node, ...status } of statusesOf(operation))
          note({ operation: operation.id, node, status, sentAt, seenAt }, { runs, one })
    }
    const isPrompt = seenAt - sentAt <= promptMs
    noteClear(isPrompt ? (look?.present ?? new Map()) : new Map(), { sentAt, seenAt, windows, one })
    await delay(everyMs)
  }
}

interface Look {
  readonly active: Set<string>
  readonly operations: readonly SeenOperation[]
  /** Nodes that are healthy or draining, with their status. */
  readonly present: ReadonlyMap<string, string>
}

async function lookAt({ world, controller, random, known }: One, before: ReadonlySet<string>): Promise<Look> {
  const url = world.controllers[controller]?.url ?? ''
  const [ready, nodes, list] = await Promise.all([
    request(`${url}/readyz`),
    request(`${url}/api/nodes`),
    request(`${url}/api/operations?state=active`),
  ])
  if (nodes.status !== 200 || list.status !== 200) throw new Error('not now')
  const operations = list.body['operations'] as readonly SeenOperation[]
  const active = new Set(operations.map(({ id }) => id))
  const ids = known()
  const again = ids.length === 0 ? [] : [random.pick(ids), random.pick(ids)]
  const gone = [...new Set([...before, ...again])].filter((id) => !active.has(id))
  const finished = await Promise.all(gone.map((id) => request(`${url}/api/operations/${id}`)))
  const all = nodes.body['nodes'] as readonly { name: string; status: string }[]
  return {
    active,
    operations: [...operations, ...finished.filter(({ status }) => status === 200).map(({ body }) => body as unknown as SeenOperation)],
    present: new Map(
      ready.status === 200
        ? all.filter(({ status }) => status === 'healthy' || status === 'draining').map(({ name, status }) => [name, status])
        : [],
    ),
  }
}

function statusOf({ status, message, next_retry_at: nextRetryAt, error_code: errorCode, ring }: SeenNode): ShownStatus {
  const isSettled = ['success', 'skipped', 'cancelled'].includes(status) || (status === 'error' && nextRetryAt === null)
  const isSuperseded = status === 'cancelled' && message.startsWith('superseded')
  return { status, isSettled, errorCode, because: isSuperseded ? 'superseded' : ring === null ? null : 'rollout' }
}

/** An operation about a model is one thing, whatever its nodes show until its end. */
export function statusesOf({ model, state, finished_at: finishedAt, nodes }: SeenOperation): (ShownStatus & { readonly node: string })[] {
  if (model !== null) return [{ node: wholeOperation, status: state, isSettled: finishedAt !== null, errorCode: null, because: null }]
  return nodes.map((node) => ({ node: node.node_name, ...statusOf(node) }))
}

type Sighting = Readonly<{ operation: string; node: string; status: ShownStatus; sentAt: number; seenAt: number }>

function note(
  { operation, node, status: now, sentAt, seenAt }: Sighting,
  { runs, one }: { runs: Map<string, Mutable<ShownRun>>; one: One },
): void {
  const key = `${operation} ${node}`
  const run = runs.get(key)
  const isSame = run !== undefined && run.status === now.status && run.isSettled === now.isSettled && run.errorCode === now.errorCode
  // Settled operations are read only now and then, so a gap between two reads says nothing.
  if (isSame && (now.isSettled || sentAt - run.to <= everyMs + 2 * promptMs)) return void (run.to = sentAt)
  const begun = { controller: one.controller, operation, node, ...now, from: sentAt, seenAt, to: sentAt }
  runs.set(key, begun)
  one.shown.push(begun)
}

type WatchRound = Readonly<{ sentAt: number; seenAt: number; windows: Map<string, Mutable<Clear>>; one: One }>

function noteClear(present: ReadonlyMap<string, string>, { sentAt, seenAt, windows, one }: WatchRound): void {
  for (const { name: node } of one.world.workers) {
    const window = windows.get(node)
    const isDraining = present.get(node) === 'draining'
    if (!present.has(node) || !one.disks.isConnected(node)) windows.delete(node)
    else if (window?.isDraining === isDraining && sentAt - window.to <= everyMs + promptMs) window.to = sentAt
    else {
      const opened = { controller: one.controller, node, isDraining, from: seenAt, to: seenAt }
      windows.set(node, opened)
      one.clear.push(opened)
    }
  }
}
