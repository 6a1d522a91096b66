// How a question reaches a replica, and what is made of what comes back: from a server that misbehaves.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { checkGatewayToken, Secret } from '@muster/host'
import { gatewayScope, NodeId, ReplicaId } from '@muster/protocol'
import { expect, it, onTestFinished } from 'vitest'
import { createCheckClient } from './check-replicas.ts'
import { questionsFor, type Answer } from './replicas.pure.ts'

const [id, nodeId, secret] = [ReplicaId.parse('r-1'), NodeId.parse('n-1'), 'a'.repeat(64)]
const [question] = questionsFor({ model: 'm', usecases: ['chat'] })
const never = new AbortController().signal

async function ask(listener: RequestListener, { silenceMs = 5_000, signal = never } = {}): Promise<Answer> {
  if (question === undefined) throw new Error('there is one')
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => server.close().closeAllConnections())
  const client = createCheckClient({ silenceMs, controllerId: 'c-1' })
  onTestFinished(() => client.close())
  const gatewayUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/below/`
  return await client.request({ id, nodeId, gatewayUrl, gatewaySecret: new Secret(secret) }, question, signal)
}
const named = { 'x-muster-replica': 'r-1' }

it('goes to exactly that replica, with a token for nothing else', async () => {
  const seen: unknown[] = []
  const answer = await ask(({ url, method, headers: { authorization = '' } }, response) => {
    const scope = gatewayScope.replica(id)
    seen.push(url, method, checkGatewayToken(authorization.replace('Bearer ', ''), { secret, nodeId, scope }) !== null)
    response.writeHead(200, named).end('{"a":1}')
  })
  expect(answer).toEqual({ is: 'answer', status: 200, body: '{"a":1}' })
  expect(seen).toEqual(['/below/replicas/r-1/v1/chat/completions', 'POST', true])
})

it.each<[string, RequestListener]>([
  ['never', () => undefined],
  ['with a beginning only', (_, response) => void response.writeHead(200, named).write('{"cho')],
])('who answers %s is silent', async (_, listener) => {
  expect(await ask(listener, { silenceMs: 300 })).toEqual({ is: 'silence', afterMs: 300 })
})

it.each<[string, RequestListener, string]>([
  ['another replica', (_, response) => void response.writeHead(200, { 'x-muster-replica': 'r-2' }).end('{}'), 'another process answers'],
  ['a gateway that knows us not', (_, response) => void response.writeHead(401).end('{}'), 'another process answers'],
  [
    'a gateway whose process is gone',
    (_, response) => void response.writeHead(503, { ...named, 'x-muster-refused': 'gone' }).end('{}'),
    'its gateway refused: gone',
  ],
  ['a connection that is cut', ({ socket }) => void socket.destroy(), 'other side closed'],
  [
    'a connection that is cut in the middle',
    ({ socket }, response) => void response.writeHead(200, { ...named, 'content-length': '100' }).write('{', () => socket.destroy()),
    'other side closed',
  ],
])('I14 %s is no answer of it', async (_, listener, why) => {
  const answer = await ask(listener)
  expect(answer.is).toBe('no_answer')
  expect('why' in answer && answer.why).toContain(why)
})

it('an endless answer is not read further', async () => {
  const answer = await ask((_, response) => {
    response.writeHead(200, named)
    const more = (): void => void (response.writable && response.write('x'.repeat(65_536), more))
    more()
  })
  expect('body' in answer && answer.body.length).toBeLessThan(3 * 1024 ** 2)
})

it('is aborted with its signal', async () => {
  const calling = new AbortController()
  const asked = ask(() => calling.abort(new Error('not ours any more')), { signal: calling.signal })
  await expect(asked).rejects.toThrow('not ours any more')
})
