// The commands that a node serves, one handler per subject. To add one: write its handler and put it into the table.
import { abortable } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendList,
  backendStop,
  backendUpgrade,
  failureOf,
  modelDelete,
  modelLoad,
  modelsRunning,
  modelUnload,
  nodeStop,
  opCancel,
  opStatus,
  type CommandReply,
  type NodeType,
} from '@muster/protocol'
import type { Subscription } from '@muster/bus'
import { BackendCommand } from '../operations/journal.ts'
import { failedReply, type CommandContext, type ServeCommand } from './command.ts'
import { installAndStart, replyAtEnd } from './legacy.ts'

const maxReplicasInReply = 4096

export function serveCommands(nodeType: NodeType, context: CommandContext): Subscription[] {
  const { stop } = commandHandlers
  // An agent node has no backends and subscribes to no command about them.
  return (nodeType === 'agent' ? [stop] : Object.values(commandHandlers)).map((serve) => serve(context))
}

/** By the name of the message in the catalogue. */
export const commandHandlers = {
  stop: ({ bus, nodeId, requestStop }) => bus.subscribe(nodeStop, { node: nodeId }, () => requestStop('a controller stopped this worker')),
  'backend.install': serveInstall,
  'backend.upgrade': (context) =>
    context.bus.serve(backendUpgrade, { node: context.nodeId }, (body) =>
      submit(BackendCommand.parse({ kind: 'upgrade', ...body }), { isAsync: body.async === true, context }),
    ),
  // A backend that is not installed is deleted already: no failure.
  'backend.delete': (context) =>
    context.bus.serve(backendDelete, { node: context.nodeId }, (body) =>
      submit(BackendCommand.parse({ kind: 'delete', ...body }), { isAsync: body.async === true, context }),
    ),
  'backend.list': ({ bus, nodeId, operations }) => bus.serve(backendList, { node: nodeId }, () => operations.inventory()),
  'backend.stop': serveBackendStop,
  // Replies when the load is recorded; the result follows as an event.
  'model.load': ({ bus, nodeId, replicas }) => bus.serve(modelLoad, { node: nodeId }, (order) => replicas.load(order)),
  'model.unload': ({ bus, nodeId, replicas }) =>
    bus.serve(modelUnload, { node: nodeId }, ({ replica_id, force }) => replicas.unload(replica_id, { force: force === true })),
  'model.delete': serveModelDelete,
  'models.running': serveModelsRunning,
  'op.status': ({ bus, nodeId, work }) => bus.serve(opStatus, { node: nodeId }, ({ op_id }) => work.status(op_id)),
  // Replies with the state, which is `running` while the work has not ended.
  'op.cancel': ({ bus, nodeId, work }) => bus.serve(opCancel, { node: nodeId }, ({ op_id }) => work.cancel(op_id)),
} as const satisfies Readonly<Record<string, ServeCommand>>

/** Galleries from the wire are ignored: write access to the bus must not be enough to choose the programs of this machine. */
function serveInstall(context: CommandContext): Subscription {
  return context.bus.serve(backendInstall, { node: context.nodeId }, async (body): Promise<CommandReply> => {
    const isAsync = body.async === true
    const command = BackendCommand.parse({ kind: 'install', ...body })
    if (body.model_id === undefined) return await submit(command, { isAsync, context })
    const name = { backend: body.backend, model: body.model_id, slot: body.replica_index ?? 0 }
    return await installAndStart({ command, isAsync, name }, context)
  })
}

async function submit(command: BackendCommand, { isAsync, context }: { isAsync: boolean; context: CommandContext }): Promise<CommandReply> {
  if (!isAsync) return await replyAtEnd(command, context)
  const submitted = await context.operations.submit(command)
  return submitted.accepted ? { accepted: true } : { accepted: false, failure: submitted.failure }
}

function serveBackendStop({ bus, nodeId, replicas, log }: CommandContext): Subscription {
  return bus.subscribe(backendStop, { node: nodeId }, ({ backend = null, force }) => {
    log.info('backend.stop received', { backend, processes: replicas.running().length })
    replicas
      .stopBackend(backend, { force: force === true })
      .catch((error: unknown) => log.error('cannot stop the processes of a backend', { backend, error }))
  })
}

function serveModelDelete({ bus, nodeId, replicas, signal, log }: CommandContext): Subscription {
  return bus.serve(modelDelete, { node: nodeId }, async ({ model }): Promise<CommandReply> => {
    try {
      await abortable(replicas.removeModel(model), signal)
      return { success: true }
    } catch (error) {
      log.warn('cannot remove a model', { model, error })
      return failedReply(failureOf(error))
    }
  })
}

function serveModelsRunning({ bus, nodeId, replicas }: CommandContext): Subscription {
  return bus.serve(modelsRunning, { node: nodeId }, () => ({
    replicas: replicas
      .running()
      .slice(0, maxReplicasInReply)
      .map(({ replicaId, model, revision, state, inFlight }) => ({ replica_id: replicaId, model, revision, state, in_flight: inFlight })),
  }))
}
