// Whether the key that the commands would use is good for them.
import { keyRoutes } from '@muster/protocol'
import { probeHttp } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'
import { type Check, fail, ok, type Verdict, warn } from './verdict.ts'

const setKey = 'set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE'

export interface AdminKeyFacts {
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
