// The worker's one door, as controllers and other workers use it: plain HTTP with a token per thing that is asked for.
// A token is an HMAC (host/gateway-token) with the node's secret over node, scope and who asks; replica ids are never
// used again, so a token needs no time at which it ends.
import type { Digest, ReplicaId } from './ids.ts'

/** A token is valid for exactly this. */
export const gatewayScope = {
  replica: (id: ReplicaId): string => `replica:${id}`,
  file: (digest: Digest): string => `file:${digest}`,
  upload: 'upload',
  logs: 'logs',
  metrics: 'metrics',
} as const

export const gatewayPaths = {
  /** The rest is the path on the backend: `/replicas/<id>/v1/chat/completions`. */
  replica: (id: ReplicaId): string => `/replicas/${id}`,
  /** GET with ranges: the content of a model file. */
  file: (digest: Digest): string => `/files/${digest}`,
  /** PUT: a model file, answered with `{digest,size}` once it is kept. `?digest=` when it is known. */
  upload: '/files',
  /** GET `?model=&replica=&follow=true`: what processes wrote, as text. */
  logs: '/logs',
} as const

/**
 * Says who answered. A controller forwards nothing that does not carry the id of the replica it asked: whatever else
 * listens at an address by now, it is not that replica.
 */
export const replicaHeader = 'x-muster-replica'
/**
 * How many requests are with the replica when it answers, this one among them: of all controllers, so that each learns what
 * the others have there.
 */
export const inFlightHeader = 'x-muster-in-flight'
/** Set on an answer of the gateway itself about a replica: it is not here, is not ready, or its process died before it answered. */
export const refusedHeader = 'x-muster-refused'
/**
 * `gone`: no such replica here. `draining`: takes nothing new. With both nothing was begun. `unreachable`: its process gave no
 * answer, and may have begun one. Nothing of an answer was sent, so another replica may be asked in all three cases.
 */
export type RefusalReason = 'gone' | 'draining' | 'unreachable'
