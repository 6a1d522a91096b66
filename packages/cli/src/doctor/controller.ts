// Whether the controller answers, is ready, and speaks our version.
import { systemRoutes } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import { probeHttp, type HttpFinding, versionIn } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

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
