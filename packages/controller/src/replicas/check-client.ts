// Sends one check question to one replica through the gateway of its node. Has its own connections, so that checks and requests
// of clients do not delay each other.
import { errorCode, mintGatewayToken, type Secret } from '@muster/host'
import { gatewayPaths, gatewayScope, refusedHeader, replicaHeader, type NodeId, type ReplicaId } from '@muster/protocol'
import { Agent, request as sendRequest, type Dispatcher } from 'undici'
import type { Answer, Question } from './check.pure.ts'

export interface CheckedReplica {
  readonly id: ReplicaId
  readonly nodeId: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
}
export interface CheckClient {
  /** Rejects only when aborted. */
  request(replica: CheckedReplica, question: Question, signal: AbortSignal): Promise<Answer>
  close(): Promise<void>
}

const connectTimeoutMs = 5_000
/** Answers to check questions are small; a longer one is cut. */
const maxBytes = 1024 ** 2

export function createCheckClient({ silenceMs, controllerId }: { silenceMs: number; controllerId: string }): CheckClient {
  const agent = new Agent({ connectTimeout: connectTimeoutMs, headersTimeout: silenceMs, bodyTimeout: silenceMs, allowH2: false })
  return {
    async request(replica, question, signal) {
      try {
        const answer = await sendRequest(urlOf(replica, question), {
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

function urlOf({ id, gatewayUrl }: CheckedReplica, { path }: Question): string {
  return `${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.replica(id)}${path}`
}

const tokenOf = ({ id, nodeId, gatewaySecret }: CheckedReplica, controller: string): string =>
  `Bearer ${mintGatewayToken({ secret: gatewaySecret.reveal(), nodeId, scope: gatewayScope.replica(id), controller })}`

/** Only an answer with the ID of the replica counts: another process may listen at its address by now (I14). */
async function read({ statusCode, headers, body }: Dispatcher.ResponseData, id: ReplicaId): Promise<Answer> {
  const refused = headers[refusedHeader]
  if (headers[replicaHeader] !== id || refused !== undefined) {
    // The rest is not read, and an error there changes nothing.
    body.on('error', () => undefined).destroy()
    const why =
      refused === undefined
        ? `another process answers at the address of its node (${statusCode})`
        : `its gateway refused: ${String(refused)}`
    return { is: 'no_answer', why }
  }
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    const piece = Buffer.from(chunk)
    chunks.push(piece)
    bytes += piece.length
    if (bytes > maxBytes) break
  }
  return { is: 'answer', status: statusCode, body: Buffer.concat(chunks).toString('utf8') }
}
