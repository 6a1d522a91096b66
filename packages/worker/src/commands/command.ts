// What a command's handler gets, and what it is: it starts to listen and returns how to stop.
import type { Bus, Subscription } from '@muster/bus'
import type { Log } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import type { Operations } from '../operations/operations.ts'
import type { Replicas } from '../supervisor/replicas.ts'

export type CommandContext = Readonly<{
  bus: Bus
  nodeId: NodeId
  operations: Operations
  replicas: Replicas
  /** Where others reach this worker's replicas. */
  gatewayUrl: () => string
  requestStop: (message: string) => void
  log: Log
  /** Aborts when this node leaves the bus: whoever still waits is told. */
  signal: AbortSignal
}>

export type ServeCommand = (context: CommandContext) => Subscription
