// The gateway of a worker, for controllers and other workers: plain HTTP with one token per scope. A token is an HMAC
// (host/gateway-token) with the node's secret over node, scope and controller. Replica IDs are never used again, so a token needs
// no expiry.
import type { Digest, ReplicaId } from './ids.ts'

/** A token is valid for one scope. */
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
  /** PUT: a model file, answered with `{digest,size}` when it is stored. `?digest=` when it is known. */
  upload: '/files',
  /** GET `?model=&replica=&follow=true`: the output of processes, as text. */
  logs: '/logs',
} as const

/**
 * Names the replica that answered. A controller forwards only answers with the ID of the requested replica, because another
 * process may listen at the address by now.
 */
export const replicaHeader = 'x-muster-replica'
/** The number of requests that the replica has, including this one and those of other controllers. */
export const inFlightHeader = 'x-muster-in-flight'
/**
 * Set on an answer of the gateway itself about a replica: it is not on this node, is not ready, or its process died before it
 * answered.
 */
export const refusedHeader = 'x-muster-refused'
/**
 * `gone`: no such replica on this node. `draining`: accepts no new requests. The request was not begun in either case.
 * `unreachable`: the process gave no answer, and may have begun the request. No part of an answer was sent, so another replica
 * may be tried in all three cases.
 */
export type RefusalReason = 'gone' | 'draining' | 'unreachable'
