// POST /api/join-tokens: what a machine needs to join, made when somebody is about to add one.
import { newSecret, sha256Hex } from '@muster/host'
import { joinTokenRoutes as routes } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

const validMs = 3_600_000

/** No machine but this one can be part of such a cluster: told to whoever joins, and before to whoever adds one. */
export const busIsLocal = (): HttpError =>
  new HttpError(
    409,
    'bus_is_local',
    'this controller runs on one machine with its bus inside its own process, so no other machine can join; start nats-server and run it with "muster up --nats-url nats://HOST:4222 --host 0.0.0.0" (or "muster controller --database-url U --nats-url U"), then join again',
  )

export interface JoinTokenDeps {
  readonly access: AccessStore
  readonly busKind: 'local' | 'nats'
  /** Where workers reach this controller. */
  readonly url: string
}

export function joinTokenEndpoints({ access, busKind, url }: JoinTokenDeps): Endpoint[] {
  return [
    endpoint(routes.create, async () => {
      if (busKind === 'local') throw busIsLocal()
      const token = newSecret('muster_join')
      return { token, expires_at: await access.insertJoinToken(sha256Hex(token), validMs), url }
    }),
  ]
}
