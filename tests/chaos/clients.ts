// Clients that submit operations about backends at random, through a random controller, and keep a ledger of accepted ones. A
// request without an answer is repeated with its Idempotency-Key, through another controller, until there is one.
import { setTimeout as delay } from 'node:timers/promises'
import { request, type Answer, type RequestOptions } from './request.ts'
import type { AcceptedChange, AcceptedModelOperation, AcceptedSubmission } from './observation.ts'
import type { Image } from './offers.ts'
import type { Random } from './random.ts'
import type { ChaosWorld } from './world.ts'

export interface ClientOptions {
  readonly world: ChaosWorld
  readonly random: Random
  readonly everyMs: number
  readonly say: (line: string) => void
  readonly now: () => number
}

export interface Ledger {
  readonly accepted: AcceptedSubmission[]
  readonly modelOperations: AcceptedModelOperation[]
  readonly changes: AcceptedChange[]
  /** Models that exist. */
  readonly models: Set<string>
  readonly drained: Set<string>
  /** Answered with a reason to do nothing, by status and code. */
  readonly refused: Map<string, number>
}

/** Runs until aborted; an act that was begun is still repeated until it is answered. */
export async function keepActing(
  { random, everyMs }: ClientOptions,
  act: (key: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let number = 0; !signal.aborted; number += 1) {
    await act(`${random.below(2 ** 32).toString(36)}-${number}`)
    await delay(random.between(0, 2 * everyMs), undefined, { signal }).catch(() => undefined)
  }
}

const giveUpAfterMs = 90_000

export type TimedAnswer = Readonly<{ answer: Answer; sentAt: number; answeredAt: number }>

/** Asks until a controller answers. */
export async function ask(
  { world, random, say, now }: Omit<ClientOptions, 'everyMs'>,
  { about, path, key, ...options }: RequestOptions & Readonly<{ about: string; path: string; key?: string }>,
): Promise<TimedAnswer> {
  const sentAt = now()
  for (let tries = 1; now() - sentAt < giveUpAfterMs; tries += 1) {
    const controller = random.pick(world.controllers)
    const headers = key === undefined ? {} : { headers: { 'idempotency-key': key } }
    const answer = await request(`${controller.url}${path}`, { ...options, ...headers }).catch(() => null)
    if (answer === null || answer.status >= 500 || answer.status === 429) {
      await delay(250)
      continue
    }
    const outcome = answer.status === 202 ? idOf(answer) : `${reasonOf(answer)} ${messageOf(answer)}`
    say(`${controller.name} ${about}: ${outcome}${tries > 1 ? ` (try ${tries})` : ''}`)
    return { answer, sentAt, answeredAt: now() }
  }
  throw new Error(`no controller answered ${about} for ${giveUpAfterMs} ms`)
}

const idOf = ({ body }: Answer): string =>
  (body as { operation_id?: string; id?: string }).operation_id ?? (body as { id?: string }).id ?? ''

const reasonOf = ({ status, body }: Answer): string => `${status} ${(body['error'] as { code?: string } | undefined)?.code ?? ''}`

const messageOf = ({ body }: Answer): string => (body['error'] as { message?: string } | undefined)?.message ?? ''

export const noteRefusal = ({ refused }: Ledger, answer: Answer): void =>
  void (answer.status >= 400 && refused.set(reasonOf(answer), (refused.get(reasonOf(answer)) ?? 0) + 1))

type Submission = Omit<AcceptedSubmission, 'operation' | 'sentAt' | 'answeredAt'> & {
  readonly path: string
  readonly options: RequestOptions
}

export async function submitBackend(options: ClientOptions, ledger: Ledger, key: string): Promise<void> {
  const { path, options: how, ...submission } = chooseSubmission(options)
  const about = `${submission.kind} ${submission.backend} ${submission.digest?.slice(7, 15) ?? ''} on ${submission.nodes?.join(' ') ?? 'all'}`
  const { answer, ...times } = await ask(options, { ...how, about, path, key })
  if (answer.status === 202) ledger.accepted.push({ ...submission, operation: String(answer.body['operation_id']), ...times })
  else noteRefusal(ledger, answer)
}

function chooseSubmission({ world, random }: ClientOptions): Submission {
  const image = random.pick(world.images)
  const { backend } = image
  const chosen = random.next() < 0.4 ? null : random.some(world.workers)
  const nodes = chosen?.map(({ name }) => name) ?? null
  const named = chosen === null ? {} : { nodes: chosen.map(({ id }) => id) }
  const dice = random.next()
  if (dice < 0.4) {
    const { uri, digest } = image
    const body = { uri, name: backend, digest, ...named }
    return { kind: 'install', backend, digest, nodes, path: '/api/backends/install', options: { method: 'POST', body } }
  }
  if (dice < 0.55)
    return {
      kind: 'install',
      backend,
      digest: null,
      nodes,
      path: '/api/backends/install',
      options: { method: 'POST', body: { backend: random.pick([backend, backend, `added@${backend}`]), ...named } },
    }
  if (dice < 0.75) {
    world.offers.offer(oneOfEach(world.images, random))
    const rollout = random.next() < 0.5 ? { rollout: { min_healthy_time: '500ms' } } : { strategy: 'recreate' }
    // The operation takes the named nodes that have the backend.
    return {
      kind: 'upgrade',
      backend,
      digest: null,
      nodes: null,
      path: `/api/backends/${backend}/upgrade`,
      options: { method: 'POST', body: { ...named, ...rollout } },
    }
  }
  const query = new URLSearchParams({
    ...(chosen === null ? {} : { node: chosen.map(({ id }) => id).join(',') }),
    ...(random.next() < 0.5 ? { force: 'true' } : {}),
  })
  return {
    kind: 'delete',
    backend,
    digest: null,
    nodes,
    path: `/api/backends/${backend}?${query.toString()}`,
    options: { method: 'DELETE' },
  }
}

/** Chooses one version of each backend for the gallery. */
export function oneOfEach(images: readonly Image[], random: Random): Image[] {
  return [...Map.groupBy(images, ({ backend }) => backend).values()].map((versions) => random.pick(versions))
}
