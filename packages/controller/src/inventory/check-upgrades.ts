// Whether newer builds are on offer: asked shortly after the start, now and then, after backend operations and on demand;
// by one controller at a time, for all. It reads and resolves; only --auto-upgrade makes it wish for anything.
import { type Clock, createLoop, type Log, withDeadline } from '@muster/host'
import { FleetError, type BackendName } from '@muster/protocol'
import { z } from 'zod'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { ResolveSource } from '../gallery/resolve-source.ts'
import { createSharedRun } from '../shared-run.ts'
import type { AvailableStore } from '../store/galleries.ts'
import type { DutyStore } from '../store/controllers.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { findAvailable, type FoundAvailable } from './find-available.ts'
import { hasUpgrade, installedOf } from './upgrades.ts'

export interface UpgradeCheckerDeps {
  readonly catalogue: Catalogue
  readonly resolve: ResolveSource
  /** All nodes, with what each has as far as that can be known. */
  readonly listNodes: () => Promise<readonly NodeRecord[]>
  readonly available: AvailableStore
  readonly duties: DutyStore
  /** This controller. */
  readonly holder: string
  readonly intervalMs: number
  /** Null: nothing is upgraded unless somebody asks. */
  readonly submitUpgrade: ((backend: BackendName) => Promise<void>) | null
  /** Ends what waits: a controller that stops asks nobody any more. */
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

/** What the database keeps of the last check. */
export const CheckReport = z.object({
  problems: z.array(z.object({ backend: z.string().nullable(), message: z.string() })).default([]),
  /** Backend → node → the digest that it was once upgraded to by itself: what failed is not tried again and again. */
  tried: z.record(z.string(), z.record(z.string(), z.string())).default({}),
})
export type CheckReport = z.infer<typeof CheckReport>

export const checkDuty = 'upgrade-check'
const soonMs = 5_000
const debounceMs = 1_000
/** Registries count how often they are asked; however many operations end, one check tells of all. */
const restMs = 10_000
/** A check is called off before its lease ends, so two never run at once. */
const [mayTakeMs, leaseMs] = [50_000, 60_000]
const turnWithinMs = 30_000
const pollMs = 250

export type UpgradeChecker = ReturnType<typeof createUpgradeChecker>

export function createUpgradeChecker(deps: UpgradeCheckerDeps) {
  const { duties, holder, stopping, clock, log, intervalMs } = deps
  const loop = createLoop({ what: 'cannot check for newer backends; retrying', retryMs: intervalMs, clock, log })
  let isRequested = false
  const take = (unlessDoneWithinMs: number): Promise<boolean> => duties.take(checkDuty, { holder, leaseMs, unlessDoneWithinMs })

  const checkOnce = async (): Promise<void> => {
    try {
      await withDeadline({ clock, ms: mayTakeMs, what: 'the check for newer backends', signal: stopping }, (signal) => check(deps, signal))
    } catch (error) {
      await duties.release(checkDuty, holder).catch(() => undefined)
      throw error
    }
  }
  const checkInTurn = createSharedRun(async () => {
    const since = clock.monotonic()
    while (!(await take(0))) {
      if (clock.monotonic() - since > turnWithinMs) throw somebodyChecks()
      await clock.sleep(pollMs, stopping)
    }
    await checkOnce()
  }, clock)

  return {
    /** What was installed changed, or what is offered. */
    wake(): void {
      isRequested = true
      loop.wake()
    },
    /** As of now; throws when it can't be done. */
    checkNow: (): Promise<void> => checkInTurn(),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      let [isFirst, requestedAt] = [true, -Infinity]
      await loop.run(async (until) => {
        if (isFirst) {
          isFirst = false
          return isRequested ? 0 : soonMs
        }
        if (isRequested) {
          await clock.sleep(Math.max(debounceMs, requestedAt + restMs - clock.monotonic()), until)
          isRequested = false
          requestedAt = clock.monotonic()
          await checkInTurn()
        } else if (await take(Math.min(intervalMs / 2, 60_000))) await checkOnce()
        return intervalMs
      }, signal)
    },
  }
}

const somebodyChecks = (): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: 'another controller looks for newer backends; ask again in a moment' })

async function check(deps: UpgradeCheckerDeps, signal: AbortSignal): Promise<void> {
  const { catalogue, resolve, listNodes, available, duties, holder, log } = deps
  const [offered, nodes, before] = await Promise.all([catalogue(), listNodes(), duties.read(checkDuty)])
  const result = await findAvailable({ offered, resolve, signal }, nodes)
  const tried = CheckReport.safeParse(before.report).data?.tried ?? {}
  // While a gallery can't be read another one's entry of the same name would count: that is no reason to replace anything.
  const isSure = offered.problems.length === 0
  const report: CheckReport = { problems: [...result.problems], tried: isSure ? await upgradeAll(deps, { nodes, result, tried }) : tried }
  const isOurs = await available.record({ duty: checkDuty, holder, ...result, report })
  if (!isOurs) log.warn('the check for newer backends took too long, and another controller does it')
  else log.debug('looked for newer backends', { found: result.found.length, problems: result.problems.length })
}

type Upgrading = Readonly<{ nodes: readonly NodeRecord[]; result: FoundAvailable; tried: CheckReport['tried'] }>

/** Upgrades what has an upgrade, each node to each digest once. Returns what was tried, without what is installed no more. */
async function upgradeAll({ submitUpgrade, log }: UpgradeCheckerDeps, { nodes, result, tried }: Upgrading): Promise<CheckReport['tried']> {
  if (submitUpgrade === null) return tried
  const after: CheckReport['tried'] = {}
  for (const [backend, installed] of installedOf(nodes, result.found)) {
    const once = { ...tried[backend] }
    const due = installed.filter(hasUpgrade)
    after[backend] = once
    if (due.every(({ node, offer }) => once[node.id] === offer?.digest)) continue
    try {
      await submitUpgrade(backend)
      for (const { node, offer } of due) once[node.id] = offer?.digest ?? ''
    } catch (error) {
      log.warn('a backend was not upgraded by itself; it is tried at the next check', { backend, error })
    }
  }
  return after
}
