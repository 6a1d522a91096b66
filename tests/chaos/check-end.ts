// What must be so when everything has been quiet for a while. Pure.
import type { AcceptedWish, FinalIntent, Observed, Violation } from './observed.ts'

const ends = ['applied', 'failed', 'dead', 'cancelled']

/** I1, I17: what was accepted is there, on every controller, and every node of it is settled. */
export function missingWishes({ accepted, controllers, finalNodes }: Observed): Violation[] {
  const byOperation = Map.groupBy(finalNodes, (each) => each.operation)
  return accepted.flatMap((wish) => {
    const rows = byOperation.get(wish.operation) ?? []
    return Array.from({ length: controllers }, (_, controller) => {
      const seen = rows.filter((each) => each.controller === controller)
      const about = { operation: wish.operation, backend: wish.backend }
      const lost = (what: string): Violation => ({ rule: 'accepted wish missing', what: `on controller ${controller}: ${what}`, about })
      if (seen.length === 0) return [lost('the operation is not there')]
      const absent = (wish.nodes ?? []).filter((node) => !seen.some((each) => each.node === node))
      const open = seen.filter((each) => !each.isSettled)
      return [
        ...absent.map((node) => lost(`it was wished for ${node}, which it does not show`)),
        ...open.map(({ node, status }) => lost(`${node} is still ${status}`)),
      ]
    }).flat()
  })
}

/** I4: nothing is there that nobody was told of; a repeated request made no second operation. */
export function unaskedOperations({ accepted, operations }: Observed): Violation[] {
  const known = new Set(accepted.map((wish) => wish.operation))
  return operations
    .filter((operation) => !known.has(operation))
    .map((operation) => ({ rule: 'operation nobody was told of', what: 'it is in no answer that a client got', about: { operation } }))
}

/** I9, I8: every wish came to an end, and a bad end has a cause: each try met a worker that was not there. */
export function unsettledIntents(observed: Observed): Violation[] {
  return observed.intents.flatMap((intent) => {
    const { node, backend, generation, state, failure } = intent
    const about = { node, backend, generation }
    if (!ends.includes(state)) return [{ rule: 'intent not settled', what: `it is still ${state}`, about }]
    if (state !== 'failed' && state !== 'dead') return []
    return isJustified(intent, observed)
      ? []
      : [{ rule: 'dead without a cause', what: `${state}: ${failure ?? 'no failure is noted'}`, about }]
  })
}

/** How long after its start a worker may be deaf: longer than one that is only just joining needs. */
const deafAfterStartMs = 10_000

function isJustified({ node, generation, state }: FinalIntent, { failedTries, downs }: Observed): boolean {
  const tries = failedTries.filter((each) => each.generation === generation)
  const isExcused = (at: number): boolean => downs.some(({ name, from, to }) => name === node && at >= from && at <= to + deafAfterStartMs)
  return state === 'dead' && tries.length > 0 && tries.every(({ at }) => isExcused(at))
}

/** I2: the row carries a wish that no other one was made after. */
export function lostLastWishes({ accepted, intents, owners, finalNodes }: Observed): Violation[] {
  const wishes = new Map(accepted.map((wish) => [wish.operation, wish]))
  const ownersOf = Map.groupBy(owners, (each) => each.generation)
  const concerned = Map.groupBy(
    finalNodes.filter((each) => each.controller === 0 && each.status !== 'skipped'),
    (each) => each.node,
  )
  return intents.flatMap((intent): Violation[] => {
    const { node, backend, generation } = intent
    const about = { node, backend, generation }
    const own = (ownersOf.get(generation) ?? []).flatMap((owner) => wishes.get(owner.operation) ?? [])
    if (own.length === 0) return [{ rule: 'last wish lost', what: 'nobody made the wish that the row carries', about }]
    const heardAt = Math.max(...own.map((wish) => wish.answeredAt))
    const later = (concerned.get(node) ?? []).flatMap((row): AcceptedWish[] => {
      const wish = wishes.get(row.operation)
      return wish !== undefined && wish.backend === backend && wish.sentAt > heardAt && !own.includes(wish) ? [wish] : []
    })
    return [
      ...later.map((wish) => ({
        rule: 'last wish lost',
        what: `${wish.kind} ${wish.operation} was made later, and is not what the row carries`,
        about,
      })),
      ...misread(intent, own, about),
    ]
  })
}

function misread({ kind, digest }: FinalIntent, own: readonly AcceptedWish[], about: Violation['about']): Violation[] {
  // An upgrade takes an install that is still open further, to other content.
  if (own.some((wish) => wish.kind === kind && (wish.digest === null || wish.digest === digest))) return []
  if (kind === 'install' && own.some((wish) => wish.kind === 'upgrade')) return []
  return [{ rule: 'last wish lost', what: `the row says ${kind} ${digest ?? ''}, and nobody wished that`, about }]
}

/** I2: the disk is as the last wish wants it. */
export function differingDisks({ intents, disk }: Observed): Violation[] {
  return intents.flatMap((intent) => {
    const { node, backend, generation, kind } = intent
    if (intent.state !== 'applied') return []
    const now = disk.filter((each) => each.node === node && each.backend === backend).toSorted((a, b) => b.to - a.to)[0]
    const found = now?.digest ?? null
    if (holds(intent, found)) return []
    const what = `${kind} of ${intent.digest ?? 'whatever is there'} is applied, and on disk is ${found ?? 'nothing'}`
    return [{ rule: 'disk differs', what, about: { node, backend, generation } }]
  })
}

export function holds(
  { kind, digest, isExact }: Readonly<{ kind: string; digest: string | null; isExact: boolean }>,
  found: string | null,
): boolean {
  if (kind === 'delete') return found === null
  if (kind === 'install' && !isExact) return found !== null
  return found === digest
}
