// nodes.<id>.backend.install: a backend is to be here. Galleries from the wire are not looked at: whoever
// may write to the bus must not be able to choose what runs on this machine.
import { backendInstall, type CommandReply, type Failure } from '@muster/protocol'
import { Order } from '../operations/order.ts'
import { answerOrder } from './answer-order.ts'
import type { ServeCommand } from './command.ts'

export const serveBackendInstall: ServeCommand = (context) =>
  context.bus.serve(backendInstall, { node: context.nodeId }, async (body): Promise<CommandReply> => {
    const isAsync = body.async === true
    if (body.model_id !== undefined)
      return isAsync ? { accepted: false, failure: noReplicas } : { success: false, error: noReplicas.message }
    return await answerOrder(Order.parse({ kind: 'install', ...body }), { isAsync, context })
  })

const noReplicas: Failure = {
  code: 'incompatible',
  retry: 'never',
  message: 'incompatible: this worker installs backends but does not start models yet; send the command without model_id',
}
