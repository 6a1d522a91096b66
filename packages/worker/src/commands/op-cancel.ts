// nodes.<id>.op.cancel: an operation is to end now. Answers with its state, which is `running` while it has not.
import { opCancel } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveOpCancel: ServeCommand = ({ bus, nodeId, operations, replicas }) =>
  bus.serve(opCancel, { node: nodeId }, async ({ op_id }) => (await replicas.cancel(op_id)) ?? (await operations.cancel(op_id)))
