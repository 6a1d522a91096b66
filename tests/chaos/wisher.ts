// Clients that wish at random, through whichever controller they meet, and keep a ledger of what was accepted. A request
// without an answer is repeated with its Idempotency-Key, through another controller, until there is one.
import { setTimeout as delay } from 'node:timers/promises'
import { ask, type Answer, type Asking } from './ask.ts'
import type { AcceptedWish } from './observed.ts'
import type { Random } from './random.ts'
import type { ChaosWorld, Image } from './world.ts'

export interface WisherOptions {
  readonly world: ChaosWorld
  readonly random: Random
  readonly everyMs: number
  readonly say: (line: string) => void
  readonly now: () => number
}

export interface Ledger {
  readonly accepted: AcceptedWish[]
  /** Answered with a reason to do nothing, by status and code. */
  readonly refused: Map<string, number>
}

type Wish = Omit<AcceptedWish, 'operation' | 'sentAt' | 'answeredAt'> & { readonly path: string; readonly asking: Asking }

/** Until aborted; then what was begun is still asked for to its answer. */
export async function keepWishing(options: WisherOptions, ledger: Ledger, signal: AbortSignal): Promise<void> {
  const { random, everyMs } = options
  for (let number = 0; !signal.aborted; number += 1) {
    await makeWish(options, ledger, `${random.below(2 ** 32).toString(36)}-${number}`)
    await delay(random.between(0, 2 * everyMs), undefined, { signal }).catch(() => undefined)
  }
}

const giveUpAfterMs = 90_000

async function makeWish({ world, random, say, now }: WisherOptions, { accepted, refused }: Ledger, key: string): Promise<void> {
  const { path, asking, ...wish } = chooseWish(world, random)
  const sentAt = now()
  const about = `${wish.kind} ${wish.backend} ${wish.digest?.slice(7, 15) ?? ''} on ${wish.nodes?.join(' ') ?? 'all'}`
  for (let tries = 1; now() - sentAt < giveUpAfterMs; tries += 1) {
    const controller = random.pick(world.controllers)
    const answer = await ask(`${controller.url}${path}`, { ...asking, headers: { 'idempotency-key': key } }).catch(() => null)
    if (answer === null || answer.status >= 500 || answer.status === 429) {
      await delay(250)
      continue
    }
    if (answer.status === 202) accepted.push({ ...wish, operation: String(answer.body['operation_id']), sentAt, answeredAt: now() })
    else refused.set(reasonOf(answer), (refused.get(reasonOf(answer)) ?? 0) + 1)
    return say(
      `${controller.name} ${about}: ${answer.status === 202 ? String(answer.body['operation_id']) : reasonOf(answer)}${tries > 1 ? ` (try ${tries})` : ''}`,
    )
  }
  throw new Error(`no controller answered ${about} for ${giveUpAfterMs} ms`)
}

const reasonOf = ({ status, body }: Answer): string => `${status} ${(body['error'] as { code?: string } | undefined)?.code ?? ''}`

function chooseWish(world: ChaosWorld, random: Random): Wish {
  const image = random.pick(world.images)
  const { backend } = image
  const chosen = random.next() < 0.4 ? null : random.some(world.workers)
  const nodes = chosen?.map(({ name }) => name) ?? null
  const named = chosen === null ? {} : { nodes: chosen.map(({ id }) => id) }
  const dice = random.next()
  if (dice < 0.4) {
    const { uri, digest } = image
    const body = { uri, name: backend, digest, ...named }
    return { kind: 'install', backend, digest, nodes, path: '/api/backends/install', asking: { method: 'POST', body } }
  }
  if (dice < 0.55)
    return {
      kind: 'install',
      backend,
      digest: null,
      nodes,
      path: '/api/backends/install',
      asking: { method: 'POST', body: { backend, ...named } },
    }
  if (dice < 0.75) {
    world.offer(oneOfEach(world.images, random))
    // Of those that were named, the ones that have it.
    return {
      kind: 'upgrade',
      backend,
      digest: null,
      nodes: null,
      path: `/api/backends/${backend}/upgrade`,
      asking: { method: 'POST', body: named },
    }
  }
  const query = chosen === null ? '' : `?${chosen.map(({ id }) => `node=${id}`).join('&')}`
  return { kind: 'delete', backend, digest: null, nodes, path: `/api/backends/${backend}${query}`, asking: { method: 'DELETE' } }
}

/** What the gallery has from now on. */
export function oneOfEach(images: readonly Image[], random: Random): Image[] {
  return [...Map.groupBy(images, ({ backend }) => backend).values()].map((versions) => random.pick(versions))
}
