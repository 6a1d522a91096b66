// Replica checks as work of the engine: a replica that starts beside serving ones answers a check question before it gets
// requests. Any controller claims due checks by lease; the checks of a dead controller are claimed again.
import { Agent, type Dispatcher, request as sendRequest } from 'undici'
import { type Clock, errorCode, type Log, mintGatewayToken, type Secret } from '@muster/host'
import { type Failure, gatewayPaths, gatewayScope, type NodeId, refusedHeader, replicaHeader, type ReplicaId } from '@muster/protocol'
import type { Advance } from '../loads/load-work.ts'
import type { LoadStore } from '../store/loads.ts'
import type { DueCheck, ReplicaCheckStore } from '../store/replicas.ts'
import { claimLeaseMs, createEngine, type Engine, withLease } from '../work/engine.ts'
import { type Answer, judgeAnswer, type Question, questionsFor, type Verdict } from './replicas.pure.ts'

export interface CheckDeps {
  readonly checks: ReplicaCheckStore
  readonly loads: Pick<LoadStore, 'findByReplica'>
  readonly advance: Advance
  /** This process. */
  readonly holder: string
  /** The safety poll. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

/** A backend without a GPU may need long for its first tokens; after this time without an answer the check fails. */
const answerWithinMs = 60_000
/** Every check makes a backend work: few at once, so that serving replicas are not disturbed. */
const lanes = 4
/** A replica that could not be reached is checked again; its worker reports a process that died. */
const againInMs = 1_000
const patienceMs = 30_000

export function createReplicaChecks(deps: CheckDeps): Engine {
  const { checks, holder } = deps
  const client = createCheckClient({ silenceMs: answerWithinMs, controllerId: holder })
  const engine = createEngine<DueCheck>(
    {
      what: 'cannot check new replicas; retrying',
      lanes,
      batch: 1,
      claim: (limit) => checks.take({ holder, leaseMs: claimLeaseMs, limit }),
      run: (check, signal) => checkOne(check, { ...deps, client, signal }),
      nextMs: async () => (await checks.nextDue()) ?? Infinity,
    },
    deps,
  )
  return {
    wake: engine.wake,
    async run(signal) {
      await engine.run(signal)
      await client.close()
    },
  }
}

type Means = CheckDeps & Readonly<{ client: CheckClient; signal: AbortSignal }>

async function checkOne(check: DueCheck, means: Means): Promise<void> {
  const { checks, holder, clock, log } = means
  const about = { model: check.model, replica: check.id, node: check.nodeName }
  const renew = (): Promise<boolean> => checks.keep(check.id, { holder, forMs: claimLeaseMs })
  const verdict = await withLease({ renew, clock, signal: means.signal }, (signal) => runCheck(check, means, signal))
  switch (verdict?.is) {
    case undefined:
      return log.debug('replica check was taken over', about)
    case 'passed':
    case 'not_served':
      if (await checks.pass(check.id, holder)) log.info('replica check passed', about)
      return
    case 'unclear':
      // A replica on an absent node does not fail its check.
      if (check.elapsedMs > patienceMs && (await checks.isDue(check.id)))
        return await fail(check, `it could not be reached: ${verdict.why}`, means)
      log.debug('replica could not be reached for its check', { ...about, why: verdict.why })
      await checks.keep(check.id, { holder, forMs: againInMs })
      return
    case 'failed':
      return await fail(check, verdict.cause, means)
  }
}

/** Verdict of the first question that the replica serves. A replica that serves none of them passes. */
async function runCheck(check: DueCheck, { client }: Means, signal: AbortSignal): Promise<Verdict> {
  for (const question of questionsFor(check)) {
    const verdict = judgeAnswer(question, await client.request(check, question, signal))
    if (verdict.is !== 'not_served') return verdict
  }
  return { is: 'not_served' }
}

async function fail(check: DueCheck, cause: string, { checks, loads, advance, holder, log }: Means): Promise<void> {
  // The controller that has the lease now decides.
  if (!(await checks.keep(check.id, { holder, forMs: claimLeaseMs }))) return
  const failure: Failure = { code: 'internal', retry: 'backoff', message: `the check of the new replica failed: ${cause}`.slice(0, 8192) }
  log.warn('replica check failed', { model: check.model, replica: check.id, node: check.nodeName, cause })
  await advance({
    read: () => loads.findByReplica(check.id),
    eventOf: (load) => (load.state === 'ready' ? { type: 'check_failed', failure } : null),
  })
  await checks.fail(check.id)
}

interface CheckedReplica {
  readonly id: ReplicaId
  readonly nodeId: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: Secret
}
interface CheckClient {
  /** Rejects only when aborted. */
  request(replica: CheckedReplica, question: Question, signal: AbortSignal): Promise<Answer>
  close(): Promise<void>
}

const connectTimeoutMs = 5_000
/** Answers to check questions are small; a longer one is cut. */
const maxBytes = 1024 ** 2

/**
 * Sends one check question to one replica through the gateway of its node. Has its own connections, so that checks and requests
 * of clients do not delay each other.
 */
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
