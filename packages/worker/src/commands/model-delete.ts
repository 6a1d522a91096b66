// nodes.<id>.model.delete: nothing of a model is to be here. That nothing was is no failure.
import { failureOf, modelDelete, type CommandReply } from '@muster/protocol'
import { failed, whileHere } from './answer-order.ts'
import type { ServeCommand } from './command.ts'

export const serveModelDelete: ServeCommand = ({ bus, nodeId, replicas, signal, log }) =>
  bus.serve(modelDelete, { node: nodeId }, async ({ model }): Promise<CommandReply> => {
    try {
      await whileHere(replicas.removeModel(model), signal)
      return { success: true }
    } catch (error) {
      log.warn('a model was not removed', { model, error })
      return failed(failureOf(error))
    }
  })
