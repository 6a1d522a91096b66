// nodes.<id>.op.status: how far an operation is, or how it ended.
import { opStatus } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveOpStatus: ServeCommand = ({ bus, nodeId, operations, replicas }) =>
  bus.serve(opStatus, { node: nodeId }, ({ op_id }) => replicas.status(op_id) ?? operations.status(op_id))
