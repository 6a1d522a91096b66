// Which controller is asked, and how a request to one is signed: what all requests to controllers have in common.
import { signRequest, type Clock, type Log, type NodeKey } from '@muster/host'
import { ApiError } from '@muster/protocol'
import { z } from 'zod'

export type RotaDeps = Readonly<{
  key: NodeKey
  /** In order of preference, never empty; read anew for each request. */
  urls: () => readonly [string, ...string[]]
  clock: Clock
  log: Log
}>

/** `after`: signed as if later than that, whatever the clock says. */
export type ToSign = Readonly<{ method: string; target: URL; body: Uint8Array; after?: number }>

export interface ControllerRota {
  /** The controller that is asked next. */
  current(): string
  /** All of them, that one first. */
  all(): readonly string[]
  /** This one could not do its part. It changes nothing when another one is asked by now. */
  rotate(from: string): void
  sign(request: ToSign): Record<string, string>
  /** True when a controller refused because of our clock; what is signed from now on has theirs. */
  isSkewed(answer: { readonly status: number; readonly body: unknown }): boolean
}

export function createControllerRota({ key, urls, clock, log }: RotaDeps): ControllerRota {
  let preferred: string | null = null
  /** How far the controllers' clock is ahead of ours, once one complained. */
  let offsetMs = 0

  const current = (): string => {
    const known = urls()
    return preferred !== null && known.includes(preferred) ? preferred : known[0]
  }
  return {
    current,
    all: () => [current(), ...urls().filter((url) => url !== current())],
    rotate(from) {
      if (from !== current()) return
      const known = urls()
      preferred = known[(known.indexOf(from) + 1) % known.length] ?? known[0]
      if (preferred !== from) log.info('asking another controller', { from, to: preferred })
    },
    sign: ({ method, target, body, after }) => {
      const now = new Date(Math.max(clock.now() + offsetMs, after === undefined ? 0 : after + 1))
      return { ...signRequest(key, { method, path: target.pathname, body, now }) }
    },
    isSkewed(answer) {
      const theirNow = refusedTime(answer, { status: 401, code: 'clock_skew', detail: 'now' })
      if (theirNow === null) return false
      offsetMs = theirNow - clock.now()
      log.warn('this clock differs from the controllers’; signing with theirs', { offsetMs: Math.round(offsetMs) })
      return true
    },
  }
}

/** What time controllers name when they refuse a request because of ours. */
export function refusedTime(
  { status, body }: { readonly status: number; readonly body: unknown },
  because: { status: number; code: string; detail: string },
): number | null {
  if (status !== because.status) return null
  const error = ApiError.safeParse(body).data?.error
  if (error?.code !== because.code) return null
  const time = Date.parse(z.string().safeParse(error.details?.[because.detail]).data ?? '')
  return Number.isNaN(time) ? null : time
}

export const formatPath = (path: string, params: Readonly<Record<string, string>>): string =>
  path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
