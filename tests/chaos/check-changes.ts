// Rules about cancels, retries and operations about models. Pure.
import type { Command, Observation, ShownRun, Violation } from './observation.ts'

/** Cancelled work is not carried out afterwards: neither the command itself nor older work that it had superseded. */
export function cancelledAndDone(observed: Observation): Violation[] {
  const { shown, finalNodes, owners, accepted, commands, changes } = observed
  const backendOf = new Map(accepted.map(({ operation, backend }) => [operation, backend]))
  const cancelled = new Set(changes.filter(({ kind }) => kind === 'cancel').map(({ operation }) => operation))
  const generationOf = new Map(finalNodes.map((each) => [`${each.operation} ${each.node}`, each.generation]))
  const isShared = (generation: number, { operation, node }: ShownRun): boolean =>
    owners.some((each) => each.generation === generation && each.operation !== operation) ||
    finalNodes.some((each) => each.generation === generation && each.operation !== operation && each.node === node)
  return shown.flatMap((each): Violation[] => {
    const { operation, node, status, because, seenAt } = each
    const generation = generationOf.get(`${operation} ${node}`) ?? null
    const backend = backendOf.get(operation)
    if (status !== 'cancelled' || because === 'superseded' || !cancelled.has(operation) || generation === null) return []
    if (isShared(generation, each)) return []
    const own = commands.filter((command) => command.node === node && command.backend === backend && command.generation <= generation)
    return own
      .filter((command) => isCarriedOutAfter(command, seenAt))
      .map(({ id, generation: carriedOut }) => ({
        rule: 'cancelled and done',
        what: `controller ${each.controller} showed cancelled at ${Math.round(seenAt)}, and command ${id} of generation ${carriedOut} was carried out later`,
        about: { operation, node, generation, ...(backend === undefined ? {} : { backend }) },
      }))
  })
}

const isCarriedOutAfter = ({ before, end }: Command, at: number): boolean => before > at || (end?.state === 'succeeded' && end.before > at)

/** A retry carries out again only what had failed: a node that succeeded gets no further command of the operation. */
export function retriedTooMuch({ changes, shown, owners, commands, accepted }: Observation): Violation[] {
  const backendOf = new Map(accepted.map(({ operation, backend }) => [operation, backend]))
  const retried = Map.groupBy(
    owners.filter(({ how }) => how === 'retried'),
    ({ operation }) => operation,
  )
  return [...new Set(changes.filter(({ kind }) => kind === 'retry').map(({ operation }) => operation))].flatMap((operation) => {
    const generations = new Set((retried.get(operation) ?? []).map(({ generation }) => generation))
    const own = commands.filter((command) => command.backend === backendOf.get(operation) && generations.has(command.generation))
    return own.flatMap(({ node, generation, before }): Violation[] => {
      const last = shown
        .filter((each) => each.operation === operation && each.node === node && each.isSettled && each.seenAt < before)
        .toSorted((a, b) => a.seenAt - b.seenAt)
        .at(-1)
      if (last === undefined || last.status === 'error' || last.because === 'rollout') return []
      const what = `${node} had ended with ${last.status}, and the retry carried it out again`
      return [{ rule: 'retried too much', what, about: { operation, node, generation } }]
    })
  })
}

/** Every accepted operation about a model has ended, and ended alike on every controller. */
export function openModelOperations({ modelOperations, finalNodes, controllers }: Observation): Violation[] {
  return modelOperations.flatMap(({ operation, kind, model }): Violation[] => {
    const seen = finalNodes.filter((each) => each.operation === operation)
    const lost = (what: string): Violation[] => [
      { rule: 'accepted operation missing', what: `${kind} ${model}: ${what}`, about: { operation } },
    ]
    if (seen.length < controllers) return lost(`only ${seen.length} of ${controllers} controllers show it`)
    if (new Set(seen.map(({ status }) => status)).size > 1)
      return lost(seen.map((each) => `controller ${each.controller}: ${each.status}`).join(', '))
    return seen.some(({ isSettled }) => !isSettled) ? lost(`it is still ${seen[0]?.status ?? ''}`) : []
  })
}
