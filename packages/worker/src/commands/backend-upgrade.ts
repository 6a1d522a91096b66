// nodes.<id>.backend.upgrade: what is here is to become another version, or to be proven whole.
import { backendUpgrade } from '@muster/protocol'
import { Order } from '../operations/order.ts'
import { answerOrder } from './answer-order.ts'
import type { ServeCommand } from './command.ts'

export const serveBackendUpgrade: ServeCommand = (context) =>
  context.bus.serve(backendUpgrade, { node: context.nodeId }, (body) =>
    answerOrder(Order.parse({ kind: 'upgrade', ...body }), { isAsync: body.async === true, context }),
  )
