// nodes.<id>.model.unload: exactly this replica is to end, and no other.
import { modelUnload } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveModelUnload: ServeCommand = ({ bus, nodeId, replicas }) =>
  bus.serve(modelUnload, { node: nodeId }, ({ replica_id, force }) => replicas.unload(replica_id, { force: force === true }))
