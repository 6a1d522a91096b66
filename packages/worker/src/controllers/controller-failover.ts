// Chooses the controller for the next request, and signs requests.
import { signRequest, type Clock, type Log, type NodeKey } from '@muster/host'
import { ApiError } from '@muster/protocol'
import { z } from 'zod'

export type FailoverDeps = Readonly<{
  key: NodeKey
  /** In order of preference, never empty; read for each request. */
  urls: () => readonly [string, ...string[]]
  clock: Clock
  log: Log
}>

/** `after`: signed with a time after this one, whatever the clock shows. */
export type SigningRequest = Readonly<{ method: string; target: URL; body: Uint8Array; after?: number }>

export interface ControllerFailover {
  /** The controller of the next request. */
  current(): string
  /** All controllers, the current one first. */
  all(): readonly string[]
  /** Switches away from a controller that failed. Does nothing when another one is current by now. */
  rotate(from: string): void
  /** Switches to a controller that answered while the current one was silent. */
  prefer(url: string): void
  sign(request: SigningRequest): Record<string, string>
  /** True when a controller refused because of clock skew; later requests are signed with the controllers' time. */
  isSkewed(answer: { readonly status: number; readonly body: unknown }): boolean
}

export function createControllerFailover({ key, urls, clock, log }: FailoverDeps): ControllerFailover {
  let preferred: string | null = null
  /** The controllers' clock minus this one, known after a refusal. */
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
      if (preferred !== from) log.info('controller switched', { from, to: preferred })
    },
    prefer(url) {
      const from = current()
      if (url === from) return
      preferred = url
      log.info('controller switched', { from, to: url })
    },
    sign: ({ method, target, body, after }) => {
      const now = new Date(Math.max(clock.now() + offsetMs, after === undefined ? 0 : after + 1))
      return { ...signRequest(key, { method, path: target.pathname, body, now }) }
    },
    isSkewed(answer) {
      const theirNow = refusedTime(answer, { status: 401, code: 'clock_skew', detail: 'now' })
      if (theirNow === null) return false
      offsetMs = theirNow - clock.now()
      log.warn('clock differs from the controllers; signing with their time', { offsetMs: Math.round(offsetMs) })
      return true
    },
  }
}

/** The time in a refusal that is about the time of the request. */
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
