// Whether the controller answers, is ready, and speaks our version.
import type { Clock } from '@muster/host'
import { keyRoutes, maxClockSkewMs, modelRoutes, type ModelView, systemRoutes } from '@muster/protocol'
import { formatDuration, plainText } from '../output/text.ts'
import { type Check, fail, ok, type Verdict, warn } from './checks.ts'
import type { KnownTarget } from './controller-report.ts'
import { type HttpFinding, probeHttp, versionIn } from './probes.ts'

export interface ControllerFacts {
  readonly url: string
  /** Given by flag or environment, and not just remembered from the last start on this machine. */
  readonly asked: boolean
  readonly health: HttpFinding
  readonly ready: HttpFinding
  readonly version: HttpFinding
  readonly ownVersion: string
}

export function judgeController(facts: ControllerFacts): Verdict {
  const { health, ready, version } = facts
  if (!health.answered) {
    if (!facts.asked && health.refused)
      return warn(`none runs at ${facts.url}, where the last one did`, 'start it with `muster up` or `muster controller`')
    return fail(health.reason, 'check the address and that the controller runs')
  }
  const theirs = version.answered ? versionIn(version.json) : null
  if (health.status !== 200 || theirs === null)
    return fail(
      `what answers at ${facts.url} is not a Muster controller (HTTP ${health.status})`,
      'check --url, or the proxy in front of it',
    )
  if (!ready.answered || ready.status !== 200)
    return fail(`${facts.url} lives but is not ready`, 'its database or its bus does not work: see those checks and its log')
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
    if (health === undefined || ready === undefined || version === undefined) throw new Error('three questions have three answers')
    return judgeController({ url: target.url.origin, asked: known.asked, health, ready, version, ownVersion })
  },
})

// Whether our clock agrees with the controller's: signatures more than 5 minutes off are refused, and
// times shown to people are compared with their own.

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
    // Half way between asking and hearing is when they looked at their clock, as well as we can know.
    const ours = before + (clock.now() - before) / 2
    const theirs = theirTime(finding)
    if (theirs === null) return ok('not compared: the controller does not answer')
    return judgeClockSkew({ offMs: ours - theirs.at, whose: theirs.whose })
  },
})

function theirTime(finding: HttpFinding): { at: number; whose: string } | null {
  if (!finding.answered) return null
  const status = systemRoutes.status.response?.safeParse(finding.json)
  const database = status?.success === true ? Date.parse(status.data.database.now) : Number.NaN
  if (!Number.isNaN(database)) return { at: database, whose: 'the database' }
  // Whole seconds, cut: the middle of that second is the best guess.
  const header = Date.parse(finding.date ?? '')
  return Number.isNaN(header) ? null : { at: header + 500, whose: 'the controller' }
}

// Whether the key that the commands would use is good for them.

const setKey = 'set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE'

interface AdminKeyFacts {
  readonly keyFrom: string
  readonly hasKey: boolean
  /** It is of another cluster than the one that was asked. */
  readonly isWithheld: boolean
  readonly status: number | null
}

export function judgeAdminKey(facts: AdminKeyFacts): Verdict {
  if (facts.isWithheld)
    return warn(
      `the one in ${facts.keyFrom} is for the controller of this machine, and not sent elsewhere`,
      `${setKey} to one of that cluster`,
    )
  if (!facts.hasKey) return warn(`there is none (no ${facts.keyFrom})`, `${setKey} to use the commands that talk to the controller`)
  switch (facts.status) {
    case 200:
      return ok(`works (from ${facts.keyFrom})`)
    case 401:
      return fail(`the key from ${facts.keyFrom} is not known to the controller`, `${setKey} to a valid one`)
    case 403:
      return warn(`the key from ${facts.keyFrom} is not an admin key`, `${setKey} to one of scope admin to change things`)
    case null:
      return ok(`there is one (${facts.keyFrom}); not tried: the controller does not answer`)
    default:
      return warn(`could not be tried: the controller answered HTTP ${facts.status}`, 'see the other checks')
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

// Whether every model that is wanted can be loaded.

export function judgeModels(finding: HttpFinding | null): Verdict {
  const told = modelRoutes.list.response?.safeParse(finding?.answered === true ? finding.json : undefined)
  if (told?.success !== true) return ok('not looked at: no controller tells this key of them')
  const { models } = told.data
  const failed = models.filter((model) => model.failure !== null)
  if (failed.length > 0)
    return warn(`${failed.length} of ${models.length} could not be loaded: ${failed.map(causeOf).join('; ')}`, modelsAdvice)
  const ready = models.filter((model) => model.state === 'ready').length
  return ok(models.length === 0 ? 'none yet' : `${ready} of ${models.length} ready, none has failed`)
}

const modelsAdvice = '`muster models why NAME` says where it could run, `muster models logs NAME` what it wrote'

const causeOf = ({ name, failure }: ModelView): string => `${name} (${failure?.message ?? ''})`

export const modelsCheck = (known: KnownTarget): Check => ({
  name: 'models',
  run: async (signal) => {
    const { target } = known
    return judgeModels(target === null || target.isKeyWithheld ? null : await probeHttp(target, modelRoutes.list.path, signal))
  },
})
