// Checks of the controller: reachability and version, clock, admin key and models.
import type { Clock } from '@muster/host'
import { formatDuration, keyRoutes, maxClockSkewMs, modelRoutes, type ModelView, systemRoutes } from '@muster/protocol'
import { plainText } from '../output/text.ts'
import { type Check, fail, ok, type Verdict, warn } from './checks.ts'
import type { KnownTarget } from './controller-report.ts'
import { type HttpFinding, probeHttp, versionIn } from './probes.ts'

export interface ControllerFacts {
  readonly url: string
  /** True for a URL of a flag or the environment, false for that of the last start on this machine. */
  readonly isExplicit: boolean
  readonly health: HttpFinding
  readonly ready: HttpFinding
  readonly version: HttpFinding
  readonly ownVersion: string
}

export function judgeController(facts: ControllerFacts): Verdict {
  const { health, ready, version } = facts
  if (!health.answered) {
    if (!facts.isExplicit && health.refused)
      return warn(`no controller runs at ${facts.url}, the address of the last one`, 'start it with `muster up` or `muster controller`')
    return fail(health.reason, 'check the address and that the controller runs')
  }
  const theirs = version.answered ? versionIn(version.json) : null
  if (health.status !== 200 || theirs === null)
    return fail(`the server at ${facts.url} is not a Muster controller (HTTP ${health.status})`, 'check --url, or the proxy in front of it')
  if (!ready.answered || ready.status !== 200)
    return fail(`${facts.url} answers but is not ready`, 'its database or its bus does not work: see those checks and its log')
  const found = `${facts.url} is ready, version ${plainText(theirs)}`
  if (theirs !== facts.ownVersion) return warn(`${found}; this command is ${facts.ownVersion}`, 'use the same version on both sides')
  return ok(found)
}

export const controllerCheck = (known: KnownTarget, ownVersion: string): Check => ({
  name: 'controller',
  run: async (signal) => {
    if (known.target === null) return warn(known.reason, 'start one with `muster up`, or name one with --url or MUSTER_URL')
    const { target } = known
    const [health, ready, version] = await Promise.all(
      [systemRoutes.healthz, systemRoutes.readyz, systemRoutes.version].map((route) =>
        probeHttp({ ...target, key: null }, route.path, signal),
      ),
    )
    if (health === undefined || ready === undefined || version === undefined) throw new Error('three requests have three findings')
    return judgeController({ url: target.url.origin, isExplicit: known.isExplicit, health, ready, version, ownVersion })
  },
})

// Signatures that are more than 5 minutes off are refused.
const warnAboveMs = 5000
const clockAdvice = 'set the clock of the machine that is wrong, and keep it right with NTP (timedatectl set-ntp true)'

export function judgeClockSkew(facts: { offMs: number; whose: string }): Verdict {
  const size = Math.abs(facts.offMs)
  const found = `this machine is ${formatDuration(size)} ${facts.offMs > 0 ? 'ahead of' : 'behind'} ${facts.whose}`
  if (size > maxClockSkewMs) return fail(found, clockAdvice)
  if (size > warnAboveMs) return warn(found, clockAdvice)
  return ok(`agrees with ${facts.whose}`)
}

export const clockSkewCheck = (known: KnownTarget, clock: Clock): Check => ({
  name: 'clock',
  run: async (signal) => {
    if (known.target === null) return ok('not compared: no controller is known')
    const before = clock.now()
    const finding = await probeHttp(known.target, systemRoutes.status.path, signal)
    // The best estimate of the moment when the server read its clock: half way between request and answer.
    const ownTime = before + (clock.now() - before) / 2
    const theirs = theirTime(finding)
    if (theirs === null) return ok('not compared: the controller does not answer')
    return judgeClockSkew({ offMs: ownTime - theirs.at, whose: theirs.whose })
  },
})

function theirTime(finding: HttpFinding): { at: number; whose: string } | null {
  if (!finding.answered) return null
  const status = systemRoutes.status.response?.safeParse(finding.json)
  const database = status?.success === true ? Date.parse(status.data.database.now) : Number.NaN
  if (!Number.isNaN(database)) return { at: database, whose: 'the database' }
  // Whole seconds, truncated: the middle of the second is the best estimate.
  const header = Date.parse(finding.date ?? '')
  return Number.isNaN(header) ? null : { at: header + 500, whose: 'the controller' }
}

const setKey = 'set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE'

interface AdminKeyFacts {
  readonly keyFrom: string
  readonly hasKey: boolean
  /** The key belongs to another cluster. */
  readonly isWithheld: boolean
  readonly status: number | null
}

export function judgeAdminKey(facts: AdminKeyFacts): Verdict {
  if (facts.isWithheld)
    return warn(
      `the key in ${facts.keyFrom} is for the controller of this machine, and is not sent elsewhere`,
      `${setKey} to one of that cluster`,
    )
  if (!facts.hasKey) return warn(`no key (no ${facts.keyFrom})`, `${setKey} to use the commands that talk to the controller`)
  switch (facts.status) {
    case 200:
      return ok(`works (from ${facts.keyFrom})`)
    case 401:
      return fail(`the key from ${facts.keyFrom} is unknown to the controller`, `${setKey} to a valid one`)
    case 403:
      return warn(`the key from ${facts.keyFrom} is not an admin key`, `${setKey} to one of scope admin to change things`)
    case null:
      return ok(`found in ${facts.keyFrom}; not tried: the controller does not answer`)
    default:
      return warn(`not tried: the controller answered HTTP ${facts.status}`, 'see the other checks')
  }
}

export const adminKeyCheck = (known: KnownTarget): Check => ({
  name: 'admin key',
  run: async (signal) => {
    if (known.target === null) return ok('not tried: no controller is known')
    const { target } = known
    const finding = target.key === null ? null : await probeHttp(target, keyRoutes.list.path, signal)
    return judgeAdminKey({
      keyFrom: target.keyFrom,
      hasKey: target.key !== null,
      isWithheld: target.isKeyWithheld,
      status: finding?.answered === true ? finding.status : null,
    })
  },
})

export function judgeModels(finding: HttpFinding | null): Verdict {
  const parsed = modelRoutes.list.response?.safeParse(finding?.answered === true ? finding.json : undefined)
  if (parsed?.success !== true) return ok('not checked: no controller lists them for this key')
  const { models } = parsed.data
  const failed = models.filter((model) => model.failure !== null)
  if (failed.length > 0)
    return warn(`${failed.length} of ${models.length} cannot be loaded: ${failed.map(causeOf).join('; ')}`, modelsAdvice)
  const ready = models.filter((model) => model.state === 'ready').length
  return ok(models.length === 0 ? 'none yet' : `${ready} of ${models.length} ready, none has failed`)
}

const modelsAdvice = '`muster models why NAME` shows where it can run, `muster models logs NAME` its output'

const causeOf = ({ name, failure }: ModelView): string => `${name} (${failure?.message ?? ''})`

export const modelsCheck = (known: KnownTarget): Check => ({
  name: 'models',
  run: async (signal) => {
    const { target } = known
    return judgeModels(target === null || target.isKeyWithheld ? null : await probeHttp(target, modelRoutes.list.path, signal))
  },
})
