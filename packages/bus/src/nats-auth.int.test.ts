import { heartbeat, NodeId, opStatus, OperationId } from '@muster/protocol'
import { systemClock } from '@muster/host'
import { nkeys } from '@nats-io/transport-node'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { boundMs, makeTempDir, startNats, waitFor } from '@muster/testkit'
import type { NatsServer, TempDir } from '@muster/testkit'
import type { Bus } from './bus.ts'
import { beat, codeOf, recordingLog } from '../test/contract-suite.ts'
import type { RecordingLog } from '../test/contract-suite.ts'
import { connectNats } from './nats/connect-nats.ts'
import type { NatsCredentials } from './nats/connect-nats.ts'

const op_id = OperationId.parse('op-1')
const node = NodeId.parse('n-1')
const soon = { timeoutMs: 60_000 }

type KeyPair = ReturnType<typeof nkeys.createUser>
const operator = nkeys.createOperator()
const account = nkeys.createAccount()

function sign(issuer: KeyPair, subject: KeyPair, claims: Record<string, unknown>): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const issued = { jti: 'test', iat: Math.floor(Date.now() / 1000), iss: issuer.getPublicKey(), sub: subject.getPublicKey(), ...claims }
  const signed = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part(issued)}`
  return `${signed}.${Buffer.from(issuer.sign(Buffer.from(signed))).toString('base64url')}`
}

interface Grant {
  readonly pub: readonly string[]
  readonly sub: readonly string[]
  readonly expiresInS?: number
}

function credentialsFor(user: KeyPair, { pub, sub, expiresInS }: Grant): NatsCredentials {
  const nats = {
    type: 'user',
    version: 2,
    subs: -1,
    data: -1,
    payload: -1,
    pub: { allow: pub },
    sub: { allow: sub },
    resp: { max: 1, ttl: 60e9 },
  }
  const exp = expiresInS === undefined ? {} : { exp: Math.floor(Date.now() / 1000) + expiresInS }
  return { jwt: sign(account, user, { nats, ...exp }), seed: new TextDecoder().decode(user.getSeed()) }
}

const controllerGrant: Grant = { pub: ['nodes.*.op.>'], sub: ['nodes.*.heartbeat', '_INBOX_c.>'] }
const workerGrant: Grant = { pub: ['nodes.n-1.heartbeat'], sub: ['nodes.n-1.op.>', '_INBOX_w.>'] }

describe.concurrent('connectNats with credentials', () => {
  let server: NatsServer
  let dir: TempDir
  const buses: Bus[] = []
  beforeAll(async () => {
    dir = await makeTempDir('nats')
    const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 }
    const config = [
      `operator: ${sign(operator, operator, { name: 'test', nats: { type: 'operator', version: 2 } })}`,
      'resolver: MEMORY',
      `resolver_preload: { ${account.getPublicKey()}: ${sign(operator, account, { name: 'test', nats: { type: 'account', version: 2, limits } })} }`,
    ]
    await writeFile(join(dir.path, 'nats.conf'), config.join('\n'))
    server = await startNats({ args: ['-c', join(dir.path, 'nats.conf')] })
  })
  afterAll(async () => {
    await Promise.all(buses.map((bus) => bus.close()))
    await server.stop()
    await dir.remove()
  })

  const open = async (inboxPrefix: string, credentials: () => NatsCredentials, log: RecordingLog = recordingLog()): Promise<Bus> => {
    const bus = await connectNats({ url: server.url, name: 'test', inboxPrefix, log, clock: systemClock, credentials })
    buses.push(bus)
    return bus
  }
  const connected = async (...options: Parameters<typeof open>): Promise<Bus> => {
    const bus = await open(...options)
    await waitFor(() => bus.isConnected(), { what: 'the connection' })
    return bus
  }

  it('X6 works with no other rights than its own subjects and its own inbox', async () => {
    const mine = credentialsFor(nkeys.createUser(), controllerGrant)
    const theirs = credentialsFor(nkeys.createUser(), workerGrant)
    const controller = await connected('_INBOX_c', () => mine)
    const worker = await connected('_INBOX_w', () => theirs)
    const seen: number[] = []
    worker.serve(opStatus, { node }, (body) => ({ ...body, state: 'running' as const }))
    controller.subscribe(heartbeat, { node: '*' }, ({ seq }) => void seen.push(seq))
    await Promise.all([worker.ping(5000), controller.ping(5000)])
    expect(await controller.request(opStatus, { node }, { op_id }, soon)).toMatchObject({ state: 'running' })
    worker.publish(heartbeat, { node }, beat(node, 1))
    await waitFor(() => seen.includes(1), { what: 'the heartbeat' })
  })

  it('a request to a subject without permission fails at once as invalid, and is logged', async () => {
    const log = recordingLog()
    const mine = credentialsFor(nkeys.createUser(), workerGrant)
    const worker = await connected('_INBOX_w', () => mine, log)
    const since = performance.now()
    expect(await codeOf(worker.request(opStatus, { node: NodeId.parse('n-2') }, { op_id }, soon))).toBe('invalid')
    expect(performance.now() - since).toBeLessThan(boundMs(2000))
    expect(log.lines).toContainEqual(expect.objectContaining({ level: 'error', message: 'bus permission denied' }))
    expect(worker.isConnected()).toBe(true)
  })

  it('a refused subscription works once new credentials allow it', async () => {
    const user = nkeys.createUser()
    const log = recordingLog()
    const isRefused = (): boolean => log.lines.some((line) => line.message === 'bus permission denied')
    // Short-lived, so that there is a next connection, at which the rights are others.
    const narrow = { ...controllerGrant, sub: ['_INBOX_c.>'], expiresInS: 2 }
    const controller = await connected('_INBOX_c', () => credentialsFor(user, isRefused() ? controllerGrant : narrow), log)
    const theirs = credentialsFor(nkeys.createUser(), workerGrant)
    const worker = await connected('_INBOX_w', () => theirs)
    const seen: number[] = []
    controller.subscribe(heartbeat, { node }, ({ seq }) => void seen.push(seq))
    await waitFor(isRefused, { what: 'the refusal' })
    await waitFor(
      () => {
        worker.publish(heartbeat, { node }, beat(node, 7))
        return seen.includes(7)
      },
      { what: 'the subscription to work' },
    )
  })

  it('C12 credentials that expire are replaced by renewed ones at the reconnection', async () => {
    const user = nkeys.createUser()
    let asked = 0
    const log = recordingLog()
    const controller = await open(
      '_INBOX_c',
      () => {
        asked += 1
        return credentialsFor(user, { ...controllerGrant, expiresInS: asked === 1 ? 2 : 3600 })
      },
      log,
    )
    const changes: boolean[] = []
    controller.onConnection((is) => changes.push(is))
    await waitFor(() => changes.length >= 3, { what: 'the connection, its end and a new one' })
    expect(changes).toEqual([true, false, true])
    await controller.ping(5000)
    expect(asked).toBe(2)
  })

  it('refused credentials are logged as such and tried again, until there are good ones', async () => {
    const log = recordingLog()
    const user = nkeys.createUser()
    let credentials: NatsCredentials = {
      ...credentialsFor(user, controllerGrant),
      seed: new TextDecoder().decode(nkeys.createUser().getSeed()),
    }
    const controller = await open('_INBOX_c', () => credentials, log)
    const refusals = () => log.lines.filter((line) => line.message === 'bus refused the credentials; retrying')
    await waitFor(() => refusals().length > 0, { what: 'the refusal in the log' })
    expect(controller.isConnected()).toBe(false)
    credentials = credentialsFor(user, controllerGrant)
    await waitFor(() => controller.isConnected(), { what: 'the connection' })
    expect(refusals()).toHaveLength(1)
  })

  it('credentials that cannot even be read are tried again too', async () => {
    const log = recordingLog()
    const user = nkeys.createUser()
    let isBroken = true
    const controller = await open(
      '_INBOX_c',
      () => {
        if (isBroken) throw new Error('the key file is gone')
        return credentialsFor(user, controllerGrant)
      },
      log,
    )
    await waitFor(() => log.lines.some((line) => line.fields['reason'] === 'the key file is gone'), { what: 'the reason in the log' })
    isBroken = false
    await waitFor(() => controller.isConnected(), { what: 'the connection' })
  })
})

describe('connectNats with a password in the URL', () => {
  it('uses it, and never logs it', async () => {
    await using server = await startNats({ args: ['--user', 'muster', '--pass', 'p@ss/word'] })
    const log = recordingLog()
    const url = `nats://muster:${encodeURIComponent('p@ss/word')}@127.0.0.1:${server.port}`
    const bus = await connectNats({ url, name: 'test', inboxPrefix: '_INBOX_t', log, clock: systemClock })
    await waitFor(() => bus.isConnected(), { what: 'the connection' })
    await bus.close()
    expect(JSON.stringify(log.lines)).not.toContain('word')
  })
})
