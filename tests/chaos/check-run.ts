// Rules about every moment of a run. Pure.
import { holds } from './check-end.ts'
import { contradictionMs } from './check-fleet.ts'
import type { Observation, OnDisk, Command, FinalNode, ShownRun, Violation } from './observation.ts'
import { createQuiet, longestCommon } from './quiet.ts'

/** A stored state is the same on every controller within this. */
const spreadMs = 1_000

/** I10: a settled status never changes, on any controller, except by a retry of what failed or by a rollback. */
export function changedSettled({ shown, finalNodes, changes }: Observation): Violation[] {
  const rows = Map.groupBy(shown, ({ operation, node }) => `${operation} ${node}`)
  const finals = Map.groupBy(finalNodes, ({ operation, node }) => `${operation} ${node}`)
  const retries = Map.groupBy(
    changes.filter(({ kind }) => kind === 'retry'),
    ({ operation }) => operation,
  )
  return [...rows].flatMap(([key, looks]) => {
    const ends = finals.get(key) ?? []
    if ([...looks, ...ends].some(({ errorCode }) => errorCode === 'rolled_back')) return []
    return looks.flatMap((settled): Violation[] => {
      if (!settled.isSettled) return []
      const { operation, node } = settled
      const reopened = canReopen(settled) ? (retries.get(operation) ?? []).map(({ sentAt }) => sentAt) : []
      const reopenedAt = Math.min(Infinity, ...reopened.filter((at) => at > settled.from))
      const later = looks.filter(
        (each) =>
          isOther(each, settled) &&
          Math.min(each.to, reopenedAt) > settled.seenAt + (each.controller === settled.controller ? 0 : spreadMs) &&
          each.seenAt < reopenedAt,
      )
      const last = reopenedAt === Infinity ? ends.filter((each) => isOther(each, settled)) : []
      return [...later, ...last].slice(0, 1).map((each: ShownRun | FinalNode) => ({
        rule: 'settled status changed',
        what: `controller ${settled.controller} showed ${settled.status}, and later controller ${each.controller} showed ${each.status}`,
        about: { operation, node },
      }))
    })
  })
}

/** A retry reopens what failed, and what a stopped rollout had not begun. */
const canReopen = ({ status, because }: ShownRun): boolean =>
  status === 'error' || status === 'failed' || (status === 'cancelled' && because === 'rollout')

const isOther = (a: { status: string; errorCode: string | null }, b: ShownRun): boolean =>
  a.status !== b.status || a.errorCode !== b.errorCode

type Followed = Readonly<{
  backend: string
  generation: number
  wanted: Readonly<{ kind: string; digest: string | null; isExact: boolean }>
  /** Commands of every intent that the operation followed, in order. */
  commands: readonly Command[]
}>

/** Finds the intent that an operation's node follows, and the worker's commands for it; null when there is none. */
function createFollow(observed: Observation): (operation: string, node: string) => Followed | null {
  const finals = new Map(observed.finalNodes.map((each) => [`${each.operation} ${each.node}`, each]))
  const submissions = new Map(observed.accepted.map((submission) => [submission.operation, submission]))
  const commands = Map.groupBy(observed.commands, ({ node, backend }) => `${node} ${backend}`)
  const owned = Map.groupBy(observed.owners, ({ operation }) => operation)
  const taken = new Set(observed.owners.filter(({ how }) => how === 'repinned').map(({ generation }) => generation))
  const returned = new Set(observed.owners.filter(({ how }) => how === 'returning').map(({ generation }) => generation))
  return (operation, node) => {
    const last = finals.get(`${operation} ${node}`)?.generation ?? null
    const submission = submissions.get(operation)
    if (submission === undefined || last === null) return null
    const { backend, kind } = submission
    const generations = new Set([last, ...(owned.get(operation) ?? []).map((each) => each.generation)])
    const all = (commands.get(`${node} ${backend}`) ?? []).filter((command) => generations.has(command.generation))
    // A rollback is not what was asked for: its end is shown as an error.
    const own = all.filter((command) => !returned.has(command.generation))
    const generation = returned.has(last) ? Math.max(...own.map((command) => command.generation)) : last
    const asked = taken.has(generation) ? null : submission.digest
    const digest = asked ?? own.find((command) => command.generation === generation)?.digest ?? null
    return { backend, generation, wanted: { kind, digest, isExact: asked !== null || taken.has(generation) }, commands: own }
  }
}

/** No controller shows `success` of content that the disk did not hold. */
export function falseSuccesses(observed: Observation): Violation[] {
  const follow = createFollow(observed)
  const disks = Map.groupBy(observed.disk, ({ node, backend }) => `${node} ${backend}`)
  const commands = Map.groupBy(observed.commands, ({ node, backend }) => `${node} ${backend}`)
  return observed.shown.flatMap((each): Violation[] => {
    if (each.status !== 'success') return []
    const { operation, node, controller, seenAt } = each
    const followed = follow(operation, node)
    if (followed === null)
      return [violation(`controller ${controller} showed success of an operation that no client submitted`, { operation, node })]
    const { backend, generation, wanted } = followed
    const about = { operation, node, backend, generation }
    const ends = followed.commands.flatMap(({ end }) => (end?.state === 'succeeded' && end.before < seenAt ? [end] : []))
    if (ends.length === 0) return [violation(`controller ${controller} showed success, and the worker had recorded none`, about)]
    const records = disks.get(`${node} ${backend}`) ?? []
    const lay = mayHaveLain(records, each, (digest) => holds(wanted, digest)) || cameAndWent(records, each, ends)
    const isOverruled = (commands.get(`${node} ${backend}`) ?? []).some(
      (command) => command.generation > generation && command.before < seenAt,
    )
    return lay || isOverruled ? [] : [violation(`controller ${controller} showed success, and the disk did not hold it`, about)]
  })
}

/** Between two looks anything may have been there, so what was seen first and last is stretched to the looks beside it. */
function mayHaveLain(records: readonly OnDisk[], { from, seenAt }: ShownRun, isIt: (digest: string | null) => boolean): boolean {
  const inOrder = records.toSorted((a, b) => a.from - b.from)
  return inOrder.some(({ digest }, index) => {
    const earliest = inOrder[index - 1]?.to ?? 0
    const latest = inOrder[index + 1]?.from ?? Infinity
    return isIt(digest) && earliest <= seenAt && latest >= from
  })
}

/** The content on disk changed between two looks, in which the worker recorded its success: it may have been there and gone. */
function cameAndWent(
  records: readonly OnDisk[],
  { from, seenAt }: ShownRun,
  ends: readonly Readonly<{ before: number; seenAt: number }>[],
): boolean {
  const inOrder = records.toSorted((a, b) => a.from - b.from)
  return inOrder.some(({ to: lastLook }, index) => {
    const nextLook = inOrder[index + 1]?.from
    if (nextLook === undefined || lastLook > seenAt || nextLook < from) return false
    return ends.some((end) => end.before <= nextLook && end.seenAt >= lastLook)
  })
}

const violation = (what: string, about: Violation['about']): Violation => ({ rule: 'false success', what, about })

/** I5: no generation was carried out twice. */
export function activatedTwice(observed: Observation): Violation[] {
  const ended = Map.groupBy(
    observed.commands.filter(({ end }) => end?.state === 'succeeded'),
    ({ node, backend, generation }) => `${node} ${backend} ${generation}`,
  )
  const twice = [...ended.values()].flatMap((commands): Violation[] => {
    const [first] = commands
    if (first === undefined || commands.length < 2) return []
    const { node, backend, generation } = first
    return [{ rule: 'activated twice', what: `the journal has ${commands.length} successes of it`, about: { node, backend, generation } }]
  })
  return [...twice, ...rewrittenRecords(observed)]
}

/** The same content again, and nothing between that had taken it away. */
function rewrittenRecords({ disk, commands }: Observation): Violation[] {
  const rows = Map.groupBy(disk, ({ node, backend }) => `${node} ${backend}`)
  return [...rows.values()].flatMap((records) =>
    records
      .toSorted((a, b) => a.from - b.from)
      .flatMap((record, index, all): Violation[] => {
        const before = all[index - 1]
        if (before === undefined || record.digest === null || before.digest !== record.digest || before.mark === record.mark) return []
        const { node, backend } = record
        const isExplained = commands.some(
          (command) => command.node === node && command.backend === backend && takesAway(command, before, record),
        )
        const what = `the record of ${record.digest} was written again, and nothing had taken it away`
        return isExplained ? [] : [{ rule: 'activated twice', what, about: { node, backend } }]
      }),
  )
}

/** It may have been at work at some time between the two. */
function takesAway(command: Command, before: OnDisk, after: OnDisk): boolean {
  if (command.kind !== 'delete' && command.digest === after.digest) return false
  return command.before <= after.from && (command.end === null || command.end.seenAt >= before.to)
}

/** The shown status follows the worker's journal while all parts are connected. */
export function contradictedStatuses(observed: Observation): Violation[] {
  const follow = createFollow(observed)
  const quiet = createQuiet(observed, { draining: false })
  return observed.shown.flatMap((each): Violation[] => {
    const followed = follow(each.operation, each.node)
    if (followed === null || each.because === 'rollout' || each.to - each.seenAt <= contradictionMs) return []
    return contradictions(each, followed.commands).flatMap(({ from, to, what }): Violation[] => {
      const longest = longestCommon([{ from: each.seenAt, to: each.to }], [{ from, to }], quiet(each.controller, each.node))
      if (longest <= contradictionMs) return []
      const { operation, node, controller } = each
      const { backend, generation } = followed
      const message = `controller ${controller} showed ${each.status} for ${Math.round(longest)} ms while ${what}`
      return [{ rule: 'status contradicted', what: message, about: { operation, node, backend, generation } }]
    })
  })
}

type Contradiction = Readonly<{ from: number; to: number; what: string }>

function contradictions({ status, isSettled }: ShownRun, commands: readonly Command[]): Contradiction[] {
  const last = commands.toSorted((a, b) => a.id - b.id).at(-1)
  const isWorking = status === 'downloading' || status === 'running_on_worker'
  if (last === undefined) return isWorking ? [{ from: 0, to: Infinity, what: 'the worker had never taken it on' }] : []
  const found: Contradiction[] = []
  if (isWorking) found.push({ from: 0, to: Math.min(...commands.map((command) => command.before)), what: 'the worker had not taken it on' })
  if (!isSettled && !isWorking) found.push({ from: last.seenAt, to: last.end?.before ?? Infinity, what: 'the worker was at it' })
  const { end } = last
  if (end !== null && !isSettled && (isWorking || end.state === 'succeeded'))
    found.push({
      from: end.seenAt,
      to: Infinity,
      what: `the worker had recorded that it ${end.state === 'succeeded' ? 'was done' : end.state}`,
    })
  return found
}
