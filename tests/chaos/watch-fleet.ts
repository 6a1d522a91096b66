// Reads from each controller, again and again, the replicas and the backends that it lists for every node.
import { setTimeout as delay } from 'node:timers/promises'
import { request } from './request.ts'
import type { ShownBackend, ShownReplica } from './observation.ts'
import type { ProcessWatch } from './watch-processes.ts'
import type { ChaosWorld } from './world.ts'

export interface FleetWatch {
  replicas(): ShownReplica[]
  backends(): ShownBackend[]
}

export interface FleetWatchOptions {
  readonly world: ChaosWorld
  readonly backends: readonly string[]
  readonly processes: ProcessWatch
  readonly now: () => number
}

const everyMs = 250
/** Two looks that are further apart say nothing about the time between. */
const gapMs = 1_000

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Sight = Readonly<{ sentAt: number; seenAt: number }>

export function watchFleet(options: FleetWatchOptions, signal: AbortSignal): FleetWatch {
  const replicas: Mutable<ShownReplica>[] = []
  const backends: Mutable<ShownBackend>[] = []
  const running = options.world.controllers.map((_, controller) => watchOne({ ...options, controller, replicas, shown: backends }, signal))
  void Promise.all(running)
  return { replicas: () => replicas, backends: () => backends }
}

type One = FleetWatchOptions & Readonly<{ controller: number; replicas: Mutable<ShownReplica>[]; shown: Mutable<ShownBackend>[] }>

async function watchOne(one: One, signal: AbortSignal): Promise<void> {
  const { controller, world } = one
  const url = world.controllers[controller]?.url ?? ''
  const noteReplica = createRuns(one.replicas)
  const noteBackend = createRuns(one.shown)
  while (!signal.aborted) {
    await Promise.all([
      lookAtBackends(url, one).then(
        ({ found, ...sight }) => {
          for (const each of found)
            noteBackend({ controller, ...each }, each.digest ?? '', { ...sight, place: `${each.node} ${each.backend}` })
        },
        () => undefined,
      ),
      ...world.workers.map(({ id, name: node }) =>
        lookAtReplicas(`${url}/api/nodes/${id}/models`, { node, one }).then(
          ({ found, ...sight }) => {
            for (const each of found) noteReplica({ controller, ...each }, each.shown, { ...sight, place: `${each.node} ${each.replica}` })
          },
          () => undefined,
        ),
      ),
    ])
    await delay(everyMs)
  }
}

interface SeenReplica {
  readonly id: string
  readonly state: string
  readonly reachable: boolean
}

type SeenReplicas = Sight & { readonly found: readonly Pick<ShownReplica, 'node' | 'replica' | 'shown'>[] }

async function lookAtReplicas(url: string, { node, one }: { node: string; one: One }): Promise<SeenReplicas> {
  // Before the question: the answer lists a process that runs now, unless the controller does not know it.
  const running = one.processes.running(node)
  const sentAt = one.now()
  const { status, body } = await request(url)
  if (status !== 200) throw new Error('not now')
  const listed = new Map((body['replicas'] as readonly SeenReplica[]).map((each) => [each.id, each]))
  const found = [...new Set([...listed.keys(), ...running])].map((replica) => ({ node, replica, shown: shownAs(listed.get(replica)) }))
  return { found, sentAt, seenAt: one.now() }
}

/** `away`: the controller shows that it cannot know. */
const shownAs = (replica: SeenReplica | undefined): ShownReplica['shown'] =>
  replica === undefined ? 'absent' : replica.state === 'ready' ? (replica.reachable ? 'ready' : 'away') : 'other'

type SeenBackends = Sight & { readonly found: readonly Pick<ShownBackend, 'node' | 'backend' | 'digest'>[] }

async function lookAtBackends(url: string, { world, backends, now }: One): Promise<SeenBackends> {
  const sentAt = now()
  const { status, body } = await request(`${url}/api/backends`)
  if (status !== 200) throw new Error('not now')
  const listed = body['backends'] as readonly { name: string; nodes: readonly { node_name: string; digest: string }[] }[]
  const digests = new Map(
    listed.flatMap(({ name, nodes }) => nodes.map(({ node_name: node, digest }) => [`${node} ${name}`, digest] as const)),
  )
  const found = world.workers.flatMap(({ name: node }) =>
    backends.map((backend) => ({ node, backend, digest: digests.get(`${node} ${backend}`) ?? null })),
  )
  return { found, sentAt, seenAt: now() }
}

type Times = Readonly<{ from: number; seenAt: number; to: number }>

/** Joins looks that showed the same into runs. */
function createRuns<T extends Times>(runs: T[]) {
  const last = new Map<string, Readonly<{ value: string; run: Mutable<Times> }>>()
  return (shown: Omit<T, keyof Times>, value: string, { place, sentAt, seenAt }: Sight & { readonly place: string }): void => {
    const before = last.get(place)
    if (before?.value === value && sentAt - before.run.to <= gapMs) return void (before.run.to = sentAt)
    const run = { ...shown, from: sentAt, seenAt, to: sentAt } as T
    last.set(place, { value, run })
    runs.push(run)
  }
}
