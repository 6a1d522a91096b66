// The input of a command handler, and the reply to a caller that reads text only.
import type { Bus, Subscription } from '@muster/bus'
import type { Log } from '@muster/host'
import { FleetError, type CommandReply, type Failure, type NodeId } from '@muster/protocol'
import type { Operations } from '../operations/operations.ts'
import type { Replicas } from '../supervisor/replicas.ts'
import type { WorkRegistry } from '../work/work-registry.ts'

export type CommandContext = Readonly<{
  bus: Bus
  nodeId: NodeId
  work: WorkRegistry
  operations: Operations
  replicas: Replicas
  /** URL at which controllers reach this worker's replicas. */
  gatewayUrl: () => string
  requestStop: (message: string) => void
  /** False turns legacy.ts off: commands without `async` are refused. */
  isLegacyServed: boolean
  log: Log
  /** Aborts with `busLeft` when this node leaves the bus, so that callers who still wait get a reply. */
  signal: AbortSignal
}>

/** Starts to serve one subject. */
export type ServeCommand = (context: CommandContext) => Subscription

export const busLeft = new FleetError({
  code: 'unavailable',
  retry: 'backoff',
  message: 'this worker leaves the bus before the work is done; it reports the result when it is back',
})

export const failedReply = ({ code, message }: Failure): CommandReply => ({
  success: false,
  error: (message.startsWith(code) ? message : `${code}: ${message}`).slice(0, 8192),
})
