// Checks for newer builds: shortly after the start, at an interval, after backend operations and on demand; one controller at a
// time for all of them. The check only reads; --auto-upgrade makes it submit upgrades.
import { type Clock, createLoop, type Log, withDeadline } from '@muster/host'
import { FleetError, type BackendName } from '@muster/protocol'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { ResolveSource } from '../gallery/resolve-source.ts'
import { createSharedRun } from '../shared-run.ts'
import type { AvailableStore, DutyStore } from '../store/galleries.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { findAvailable, type FoundAvailable } from './find-available.ts'
import { checkDuty, CheckReport, installedOf, isUpgradable } from './fleet-backends.ts'

export interface UpgradeCheckerDeps {
  readonly catalogue: Catalogue
  readonly resolve: ResolveSource
  /** Nodes with inventories, as far as they are known. */
  readonly listNodes: () => Promise<readonly NodeRecord[]>
  readonly available: AvailableStore
  readonly duties: DutyStore
  /** This controller. */
  readonly holder: string
  /** Read at each check, as is `submitUpgrade`. */
  readonly intervalMs: number
  /** Null: nothing is upgraded automatically. */
  readonly submitUpgrade: ((backend: BackendName) => Promise<void>) | null
  /** Aborts checks when the controller stops. */
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

const soonMs = 5_000
const debounceMs = 1_000
/** Registries limit requests: many operations that end within this time cause one check. */
const restMs = 10_000
/** A check is aborted before its lease ends, so two never run at once. */
const [mayTakeMs, leaseMs] = [50_000, 60_000]
const turnWithinMs = 30_000
const pollMs = 250

export type UpgradeChecker = ReturnType<typeof createUpgradeChecker>

export function createUpgradeChecker(deps: UpgradeCheckerDeps) {
  const { duties, holder, stopping, clock, log } = deps
  const loop = createLoop({ what: 'cannot check for newer backends; retrying', retryMs: deps.intervalMs, clock, log })
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
      if (clock.monotonic() - since > turnWithinMs) throw checkedElsewhere()
      await clock.sleep(pollMs, stopping)
    }
    await checkOnce()
  }, clock)

  return {
    /** Inventories or galleries have changed. */
    wake(): void {
      isRequested = true
      loop.wake()
    },
    /** Throws when the check fails. */
    checkNow: (): Promise<void> => checkInTurn(),
    /** Runs until aborted. */
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
        } else if (await take(Math.min(deps.intervalMs / 2, 60_000))) await checkOnce()
        return deps.intervalMs
      }, signal)
    },
  }
}

const checkedElsewhere = (): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: 'another controller checks for newer backends; retry in a moment' })

async function check(deps: UpgradeCheckerDeps, signal: AbortSignal): Promise<void> {
  const { catalogue, resolve, listNodes, available, duties, holder, log } = deps
  const [offered, nodes, before] = await Promise.all([catalogue(), listNodes(), duties.read(checkDuty)])
  const result = await findAvailable({ offered, resolve, signal }, nodes)
  const tried = CheckReport.safeParse(before.report).data?.tried ?? {}
  const report: CheckReport = { problems: [...result.problems], tried: await upgradeAll(deps, { nodes, result, tried }) }
  // An aborted check has released its lease, so its result is not recorded.
  signal.throwIfAborted()
  const isOurs = await available.record({ duty: checkDuty, holder, ...result, report })
  if (signal.aborted) return
  if (!isOurs) log.warn('check for newer backends took too long; another controller has taken it over')
  else log.debug('check for newer backends finished', { found: result.found.length, problems: result.problems.length })
}

type UpgradeRound = Readonly<{ nodes: readonly NodeRecord[]; result: FoundAvailable; tried: CheckReport['tried'] }>

/** Submits upgrades, once for each node and digest. Returns the attempted ones, without backends that are no longer installed. */
async function upgradeAll(
  { submitUpgrade, log }: UpgradeCheckerDeps,
  { nodes, result, tried }: UpgradeRound,
): Promise<CheckReport['tried']> {
  if (submitUpgrade === null) return tried
  const after: CheckReport['tried'] = {}
  for (const [backend, installed] of installedOf(nodes, result.found)) {
    const once = { ...tried[backend] }
    const due = installed.filter(isUpgradable)
    after[backend] = once
    if (due.every(({ node, offer }) => once[node.id] === offer?.digest)) continue
    try {
      await submitUpgrade(backend)
      for (const { node, offer } of due) once[node.id] = offer?.digest ?? ''
    } catch (error) {
      log.warn('automatic upgrade failed; retrying at the next check', { backend, error })
    }
  }
  return after
}
