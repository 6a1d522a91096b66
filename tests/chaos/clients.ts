// Clients that submit operations at random, through a random controller, and keep a ledger of accepted ones. A request
// without an answer is repeated with its Idempotency-Key, through another controller, until there is one.
import { setTimeout as delay } from 'node:timers/promises'
import { request, type Answer, type RequestOptions } from './request.ts'
import type { AcceptedSubmission } from './observation.ts'
import type { Random } from './random.ts'
import type { ChaosWorld, Image } from './world.ts'

export interface ClientOptions {
  readonly world: ChaosWorld
  readonly random: Random
  readonly everyMs: number
  readonly say: (line: string) => void
  readonly now: () => number
}

export interface Ledger {
  readonly accepted: AcceptedSubmission[]
  /** Answered with a reason to do nothing, by status and code. */
  readonly refused: Map<string, number>
}

type Submission = Omit<AcceptedSubmission, 'operation' | 'sentAt' | 'answeredAt'> & {
  readonly path: string
  readonly options: RequestOptions
}

/** Runs until aborted; a request that was begun is still repeated until it is answered. */
export async function keepSubmitting(options: ClientOptions, ledger: Ledger, signal: AbortSignal): Promise<void> {
  const { random, everyMs } = options
  for (let number = 0; !signal.aborted; number += 1) {
    await submit(options, ledger, `${random.below(2 ** 32).toString(36)}-${number}`)
    await delay(random.between(0, 2 * everyMs), undefined, { signal }).catch(() => undefined)
  }
}

const giveUpAfterMs = 90_000

async function submit({ world, random, say, now }: ClientOptions, { accepted, refused }: Ledger, key: string): Promise<void> {
  const { path, options, ...submission } = chooseSubmission(world, random)
  const sentAt = now()
  const about = `${submission.kind} ${submission.backend} ${submission.digest?.slice(7, 15) ?? ''} on ${submission.nodes?.join(' ') ?? 'all'}`
  for (let tries = 1; now() - sentAt < giveUpAfterMs; tries += 1) {
    const controller = random.pick(world.controllers)
    const answer = await request(`${controller.url}${path}`, { ...options, headers: { 'idempotency-key': key } }).catch(() => null)
    if (answer === null || answer.status >= 500 || answer.status === 429) {
      await delay(250)
      continue
    }
    if (answer.status === 202) accepted.push({ ...submission, operation: String(answer.body['operation_id']), sentAt, answeredAt: now() })
    else refused.set(reasonOf(answer), (refused.get(reasonOf(answer)) ?? 0) + 1)
    return say(
      `${controller.name} ${about}: ${answer.status === 202 ? String(answer.body['operation_id']) : reasonOf(answer)}${tries > 1 ? ` (try ${tries})` : ''}`,
    )
  }
  throw new Error(`no controller answered ${about} for ${giveUpAfterMs} ms`)
}

const reasonOf = ({ status, body }: Answer): string => `${status} ${(body['error'] as { code?: string } | undefined)?.code ?? ''}`

function chooseSubmission(world: ChaosWorld, random: Random): Submission {
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
      options: { method: 'POST', body: { backend, ...named } },
    }
  if (dice < 0.75) {
    world.offer(oneOfEach(world.images, random))
    // The operation takes the named nodes that have the backend.
    return {
      kind: 'upgrade',
      backend,
      digest: null,
      nodes: null,
      path: `/api/backends/${backend}/upgrade`,
      options: { method: 'POST', body: named },
    }
  }
  const query = chosen === null ? '' : `?${chosen.map(({ id }) => `node=${id}`).join('&')}`
  return { kind: 'delete', backend, digest: null, nodes, path: `/api/backends/${backend}${query}`, options: { method: 'DELETE' } }
}

/** Chooses one version of each backend for the gallery. */
export function oneOfEach(images: readonly Image[], random: Random): Image[] {
  return [...Map.groupBy(images, ({ backend }) => backend).values()].map((versions) => random.pick(versions))
}
