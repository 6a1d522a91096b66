// What a command's handler gets, and what it is: it starts to listen and returns how to stop.
import type { Bus, Subscription } from '@muster/bus'
import type { Log } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import type { Inventory } from '../inventory.ts'

export type CommandContext = Readonly<{
  bus: Bus
  nodeId: NodeId
  inventory: Inventory
  requestStop: (message: string) => void
  log: Log
}>

export type ServeCommand = (context: CommandContext) => Subscription
