// nodes.<id>.backend.delete: a backend is not to be here. That it was not here already is no failure.
import { backendDelete } from '@muster/protocol'
import { Order } from '../operations/order.ts'
import { answerOrder } from './answer-order.ts'
import type { ServeCommand } from './command.ts'

export const serveBackendDelete: ServeCommand = (context) =>
  context.bus.serve(backendDelete, { node: context.nodeId }, (body) =>
    answerOrder(Order.parse({ kind: 'delete', ...body }), { isAsync: body.async === true, context }),
  )
