// Rules about the end of a run, when everything has been quiet for a while. Pure.
import type { AcceptedSubmission, FinalIntent, Observation, Violation } from './observation.ts'

const ends = ['applied', 'failed', 'dead', 'cancelled']

/** I1, I17: every controller shows each accepted operation, and all its nodes are settled. */
export function missingSubmissions({ accepted, controllers, finalNodes }: Observation): Violation[] {
  const byOperation = Map.groupBy(finalNodes, (each) => each.operation)
  return accepted.flatMap((submission) => {
    const rows = byOperation.get(submission.operation) ?? []
    return Array.from({ length: controllers }, (_, controller) => {
      const seen = rows.filter((each) => each.controller === controller)
      const about = { operation: submission.operation, backend: submission.backend }
      const lost = (what: string): Violation => ({
        rule: 'accepted operation missing',
        what: `on controller ${controller}: ${what}`,
        about,
      })
      if (seen.length === 0) return [lost('the operation is not there')]
      const absent = (submission.nodes ?? []).filter((node) => !seen.some((each) => each.node === node))
      const open = seen.filter((each) => !each.isSettled)
      return [
        ...absent.map((node) => lost(`it was submitted for ${node}, which it does not show`)),
        ...open.map(({ node, status }) => lost(`${node} is still ${status}`)),
      ]
    }).flat()
  })
}

/** I4: a repeated request makes no second operation: clients know of every operation. */
export function unaskedOperations({ accepted, modelOperations, operations }: Observation): Violation[] {
  const known = new Set([...accepted, ...modelOperations].map((submission) => submission.operation))
  return operations
    .filter((operation) => !known.has(operation))
    .map((operation) => ({ rule: 'operation nobody was told of', what: 'it is in no answer that a client got', about: { operation } }))
}

/** I9, I8: every intent has settled, and a bad end has a cause: each attempt met a fault. */
export function unsettledIntents(observed: Observation): Violation[] {
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

function isJustified({ node, generation, state }: FinalIntent, { failedTries, faults }: Observation): boolean {
  const tries = failedTries.filter((each) => each.generation === generation)
  const isExcused = (at: number): boolean =>
    faults.some(
      ({ name, from, to }) => (name === node || name === 'nats' || name === 'registry') && at >= from && at <= to + deafAfterStartMs,
    )
  return state === 'dead' && tries.length > 0 && tries.every(({ at }) => isExcused(at))
}

/** I2: the intent belongs to the last submission for this node and backend. */
export function lostLastSubmissions({ accepted, intents, owners, finalNodes }: Observation): Violation[] {
  const submissions = new Map(accepted.map((submission) => [submission.operation, submission]))
  const ownersOf = Map.groupBy(owners, (each) => each.generation)
  const concerned = Map.groupBy(
    finalNodes.filter((each) => each.controller === 0 && each.status !== 'skipped'),
    (each) => each.node,
  )
  const returned = new Set(owners.filter(({ how }) => how === 'returning').map(({ generation }) => generation))
  return intents.flatMap((intent): Violation[] => {
    const { node, backend, generation } = intent
    const about = { node, backend, generation }
    const own = (ownersOf.get(generation) ?? []).flatMap((owner) => submissions.get(owner.operation) ?? [])
    if (own.length === 0) return [{ rule: 'last intent lost', what: 'no client made the submission that the intent names', about }]
    const heardAt = Math.max(...own.map((submission) => submission.answeredAt))
    const later = (concerned.get(node) ?? []).flatMap((row): AcceptedSubmission[] => {
      const submission = submissions.get(row.operation)
      return submission !== undefined && submission.backend === backend && submission.sentAt > heardAt && !own.includes(submission)
        ? [submission]
        : []
    })
    return [
      ...later.map((submission) => ({
        rule: 'last intent lost',
        what: `${submission.kind} ${submission.operation} was submitted later, and the intent does not follow it`,
        about,
      })),
      // A rollback asks for the version before.
      ...(returned.has(generation) ? [] : misread(intent, own, about)),
    ]
  })
}

function misread({ kind, digest }: FinalIntent, own: readonly AcceptedSubmission[], about: Violation['about']): Violation[] {
  // An upgrade takes an install that is still open further, to other content.
  if (own.some((submission) => submission.kind === kind && (submission.digest === null || submission.digest === digest))) return []
  if (kind === 'install' && own.some((submission) => submission.kind === 'upgrade')) return []
  return [{ rule: 'last intent lost', what: `the intent says ${kind} ${digest ?? ''}, which no client submitted`, about }]
}

/** I2: the disk holds what the last intent asks for. */
export function differingDisks({ intents, disk }: Observation): Violation[] {
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
