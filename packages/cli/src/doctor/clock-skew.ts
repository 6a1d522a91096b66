// Whether our clock agrees with the controller's: signatures more than 5 minutes off are refused, and
// times shown to people are compared with their own.
import { maxClockSkewMs, systemRoutes } from '@muster/protocol'
import type { Clock } from '@muster/host'
import { formatDuration } from '../output/amounts.ts'
import { probeHttp, type HttpFinding } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

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
