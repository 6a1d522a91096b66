// nodes.<id>.backend.install: a backend is to be here. Galleries from the wire are not looked at: whoever
// may write to the bus must not be able to choose what runs on this machine.
import { backendInstall, type CommandReply } from '@muster/protocol'
import { Order } from '../operations/order.ts'
import { answerOrder } from './answer-order.ts'
import type { ServeCommand } from './command.ts'
import { installAndStart } from './install-and-start.ts'

export const serveBackendInstall: ServeCommand = (context) =>
  context.bus.serve(backendInstall, { node: context.nodeId }, async (body): Promise<CommandReply> => {
    const isAsync = body.async === true
    const order = Order.parse({ kind: 'install', ...body })
    if (body.model_id === undefined) return await answerOrder(order, { isAsync, context })
    const named = { backend: body.backend, model: body.model_id, slot: body.replica_index ?? 0 }
    return await installAndStart({ order, isAsync, named }, context)
  })
