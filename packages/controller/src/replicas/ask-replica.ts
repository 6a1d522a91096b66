// One question to one replica, through the gateway of its node. By connections of its own: what is checked holds up no
// request, and no request this.
import { errorCode, mintGatewayToken, type Secret } from '@muster/host'
import { gatewayPaths, gatewayScope, refusedHeader, replicaHeader, type NodeId, type ReplicaId } from '@muster/protocol'
import { Agent, request, type Dispatcher } from 'undici'
import type { Answer, Question } from './check.pure.ts'

export interface AskedReplica {
  readonly id: ReplicaId
  readonly nodeId: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
}
export interface ReplicaAsker {
  /** Rejects only when aborted. */
  ask(replica: AskedReplica, question: Question, signal: AbortSignal): Promise<Answer>
  close(): Promise<void>
}

const connectTimeoutMs = 5_000
/** A small question; who answers more than this answers something else. */
const mostBytes = 1024 ** 2

export function createReplicaAsker({ silenceMs, controllerId }: { silenceMs: number; controllerId: string }): ReplicaAsker {
  const agent = new Agent({ connectTimeout: connectTimeoutMs, headersTimeout: silenceMs, bodyTimeout: silenceMs, allowH2: false })
  return {
    async ask(replica, question, signal) {
      try {
        const answer = await request(urlOf(replica, question), {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: tokenOf(replica, controllerId) },
          body: JSON.stringify(question.body),
          dispatcher: agent,
          signal,
        })
        return await read(answer, replica.id)
      } catch (error) {
        signal.throwIfAborted()
        const code = errorCode(error)
        if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') return { is: 'silence', afterMs: silenceMs }
        // A connection tried over several addresses fails with an empty message.
        const why = error instanceof Error && error.message !== '' ? error.message : String(code ?? error)
        return { is: 'no_answer', why }
      }
    },
    close: () => agent.destroy(),
  }
}

function urlOf({ id, gatewayUrl }: AskedReplica, { path }: Question): string {
  return `${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.replica(id)}${path}`
}

const tokenOf = ({ id, nodeId, gatewaySecret }: AskedReplica, controller: string): string =>
  `Bearer ${mintGatewayToken({ secret: gatewaySecret.reveal(), nodeId, scope: gatewayScope.replica(id), controller })}`

/** Whatever listens at its address by now: only an answer that carries its id is its answer (I14). */
async function read({ statusCode, headers, body }: Dispatcher.ResponseData, id: ReplicaId): Promise<Answer> {
  const refused = headers[refusedHeader]
  if (headers[replicaHeader] !== id || refused !== undefined) {
    // Nobody reads on; what that breaks is of no interest.
    body.on('error', () => undefined).destroy()
    const why =
      refused === undefined ? `something else answers at the address of its node (${statusCode})` : `its gateway says: ${String(refused)}`
    return { is: 'no_answer', why }
  }
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    const piece = Buffer.from(chunk)
    chunks.push(piece)
    bytes += piece.length
    if (bytes > mostBytes) break
  }
  return { is: 'answer', status: statusCode, body: Buffer.concat(chunks).toString('utf8') }
}
