// An install that names a model, as the original's controllers send it: the backend is to be here and a process of it to
// run. What runs already, and is proven to live, is answered at once.
import { failureOf, gatewayPaths, type CommandReply, type ReplicaId } from '@muster/protocol'
import type { Order } from '../operations/order.ts'
import type { NamedReplica } from '../supervisor/replicas.ts'
import { answerOrder, failed, whileHere } from './answer-order.ts'
import type { CommandContext } from './command.ts'

type Asked = Readonly<{ order: Order; isAsync: boolean; named: NamedReplica }>

export async function installAndStart({ order, isAsync, named }: Asked, context: CommandContext): Promise<CommandReply> {
  const { replicas, operations, signal, log } = context
  if (order.force !== true) {
    const running = await whileHere(replicas.find(named), signal).catch(() => null)
    if (running !== null) return isAsync ? { accepted: true } : found(running, context)
  }
  if (isAsync) {
    const submitted = await operations.submit(order)
    if (!submitted.accepted) return { accepted: false, failure: submitted.failure }
    submitted.ended
      .then(async ({ state }) => state === 'succeeded' && (await replicas.findOrStart(named)))
      .catch((error: unknown) => log.warn('a backend was installed, but no process of it started', { ...named, error }))
    return { accepted: true }
  }
  const installed = await answerOrder(order, { isAsync, context })
  if (!('success' in installed) || !installed.success) return installed
  try {
    return found(await whileHere(replicas.findOrStart(named), signal), context)
  } catch (error) {
    return failed(failureOf(error))
  }
}

const found = (id: ReplicaId, { gatewayUrl }: CommandContext): CommandReply => ({
  success: true,
  address: `${gatewayUrl().replace(/\/$/, '')}${gatewayPaths.replica(id)}`,
})
