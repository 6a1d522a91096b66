// nodes.<id>.op.cancel: an operation is to end now. Answers with its state, which is `running` while it has not.
import { opCancel } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveOpCancel: ServeCommand = ({ bus, nodeId, operations }) =>
  bus.serve(opCancel, { node: nodeId }, ({ op_id }) => operations.cancel(op_id))
