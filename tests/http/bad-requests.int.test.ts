// Invalid messages to a worker, byte for byte over NATS: each is answered with a failure that says what is wrong,
// nothing changes on the machine, and the worker serves the next one.
import { BusError } from '@muster/bus'
import { backendInstall, Failure } from '@muster/protocol'
import { startHostileRegistry, waitFor, type HostileRegistry } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { fingerprint, plantCanary } from '../install/canary.ts'
import { connectRawNats, type RawNats } from '../nodes/raw-nats.ts'
import { backendImage, startWorkerWorld, type WorkerWorld } from '../install/worker-world.ts'

let world: WorkerWorld
let registry: HostileRegistry
let raw: RawNats

beforeAll(async () => {
  world = await startWorkerWorld({ postgresUrl: inject('postgresUrl') })
  registry = await startHostileRegistry()
  raw = await connectRawNats(world.nats.port)
  await plantCanary(world.directory)
  registry.addImage('fine', backendImage('1.0'), 'v1')
  expect(await world.install({ backend: 'fine', uri: `${registry.host}/fine:v1`, generation: 5, epoch: 5 })).toEqual({ success: true })
})
afterAll(async () => {
  await raw[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
  await registry.stop()
})

/** Everything, the journal too: what is refused leaves no trace. */
const look = async () => ({ files: await fingerprint(world.directory, ['controller']), list: await world.list() })
const subject = (of: string): string => `nodes.${world.node}.${of}`
const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

type Row = readonly [name: string, subject: string, payload: string | Uint8Array | object, message: RegExp]

const notWhatItShouldBe: readonly Row[] = [
  ['no JSON', 'backend.install', '{"backend":', /JSON/],
  ['no UTF-8', 'backend.install', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), /UTF-8|JSON/],
  ['a list', 'backend.install', [], /body/],
  ['a number', 'backend.install', '7', /body/],
  ['text', 'backend.install', '"llama"', /body/],
  ['nothing', 'backend.install', '', /backend/],
  ['null', 'backend.install', 'null', /backend/],
  ['a hundred thousand brackets', 'backend.install', '['.repeat(100_000), /JSON/],
  ['a hundred thousand objects in each other', 'backend.install', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`, /backend|JSON/],
  ['a prototype', 'backend.install', '{"__proto__":{"backend":"fine"}}', /backend/],
  ['a name that is a number', 'backend.install', { backend: 7 }, /backend/],
  ['a name that is a list of a hundred thousand', 'backend.install', { backend: Array.from({ length: 100_000 }, () => 'x') }, /backend/],
  ['a name that is empty', 'backend.install', { backend: '' }, /backend/],
  ['a path as name', 'backend.install', { backend: '../../canary/x' }, /backend/],
  ['an absolute path as name', 'backend.install', { backend: '/etc/passwd' }, /backend/],
  ['dots as name', 'backend.install', { backend: '..' }, /backend/],
  ['a name with a zero', 'backend.install', { backend: 'a\0b' }, /backend/],
  ['a name with a line break', 'backend.install', { backend: 'a\nb' }, /backend/],
  ['a name that looks like another', 'backend.install', { backend: 'ﬁne' }, /backend/],
  ['a name of 129 letters', 'backend.install', { backend: 'x'.repeat(129) }, /backend/],
  ['a name with a wildcard', 'backend.install', { backend: '*' }, /backend/],
  ['a digest that is short', 'backend.install', { backend: 'a', digest: 'sha256:abc' }, /digest/],
  ['a digest in capitals', 'backend.install', { backend: 'a', digest: `sha256:${'A'.repeat(64)}` }, /digest/],
  ['a digest that is a path', 'backend.install', { backend: 'a', digest: 'sha256:../../x' }, /digest/],
  ['a digest of another kind', 'backend.install', { backend: 'a', digest: `sha512:${'0'.repeat(128)}` }, /digest/],
  ['an address of 3,000 letters', 'backend.install', { backend: 'a', uri: 'x'.repeat(3000) }, /uri/],
  ['an address that is an object', 'backend.install', { backend: 'a', uri: { a: 1 } }, /uri/],
  ['an address that is none', 'backend.install', { backend: 'a', uri: 'gopher://x', async: true }, /unsupported source/],
  ['an operation id with dots', 'backend.install', { backend: 'a', op_id: 'a.b' }, /op_id/],
  ['an operation id with a wildcard', 'backend.install', { backend: 'a', op_id: '>' }, /op_id/],
  ['an operation id of 65 letters', 'backend.install', { backend: 'a', op_id: 'x'.repeat(65) }, /op_id/],
  ['a generation in words', 'backend.install', { backend: 'a', generation: '7' }, /generation/],
  ['a generation below nothing', 'backend.install', { backend: 'a', generation: -1 }, /generation/],
  ['a generation of 1e300', 'backend.install', '{"backend":"a","generation":1e300}', /generation/],
  ['a generation beyond whole numbers', 'backend.install', '{"backend":"a","generation":9007199254740993}', /generation/],
  ['a generation of half', 'backend.install', { backend: 'a', generation: 1.5 }, /generation/],
  ['a generation that is infinite', 'backend.install', '{"backend":"a","generation":1e999}', /generation/],
  ['a generation that is a list', 'backend.install', { backend: 'a', generation: [1] }, /generation/],
  ['an epoch below nothing', 'backend.install', { backend: 'a', epoch: -5 }, /epoch/],
  ['async in words', 'backend.install', { backend: 'a', async: 'yes' }, /async/],
  ['force in words', 'backend.install', { backend: 'a', force: 'true' }, /force/],
  ['exact as a number', 'backend.install', { backend: 'a', exact: 1 }, /exact/],
  ['galleries of 300,000 letters', 'backend.install', { backend: 'a', backend_galleries: 'x'.repeat(300_000) }, /backend_galleries/],
  ['a replica below nothing', 'backend.install', { backend: 'a', model_id: 'm', replica_index: -1 }, /replica_index/],
  ['a model that is a path', 'backend.install', { backend: 'a', model_id: '../../x' }, /model_id/],
  ['an alias that is a path', 'backend.install', { backend: 'a', alias: '../x' }, /alias/],
  ['a concrete name that is a path', 'backend.install', { backend: 'a', name: '/x' }, /name/],
  ['an unknown strategy', 'backend.upgrade', { backend: 'fine', strategy: 'explode' }, /strategy/],
  ['an upgrade of a path', 'backend.upgrade', { backend: '../fine' }, /backend/],
  ['an upgrade of nothing', 'backend.upgrade', {}, /backend/],
  ['a deletion of a path', 'backend.delete', { backend: '../../..' }, /backend/],
  ['a deletion of everything', 'backend.delete', { backend: '' }, /backend/],
  ['a deletion of a list', 'backend.delete', { backend: ['fine'] }, /backend/],
  ['a status of nothing', 'op.status', {}, /op_id/],
  ['a status of a wildcard', 'op.status', { op_id: '*' }, /op_id/],
  ['a status of a number', 'op.status', { op_id: 7 }, /op_id/],
  ['a cancellation of a path', 'op.cancel', { op_id: '../x' }, /op_id/],
  ['a cancellation of 100,000 letters', 'op.cancel', { op_id: 'x'.repeat(100_000) }, /op_id/],
  ['a list of what is a list', 'backend.list', [], /body/],
]

/** Right in form; wrong for this worker. */
const notPossible: readonly Row[] = [
  ['an older generation', 'backend.delete', { backend: 'fine', generation: 4, async: true }, /superseded/],
  ['an older epoch', 'backend.install', { backend: 'fine', uri: 'a/b', generation: 5, epoch: 4, async: true }, /superseded/],
  [
    'another command of the same generation',
    'backend.delete',
    { backend: 'fine', generation: 5, epoch: 5, async: true },
    /a different command before/,
  ],
  ['an archive without a digest', 'backend.install', { backend: 'a', uri: 'https://example.org/a.tar.gz', async: true }, /digest/],
]

describe('a request', () => {
  it.each([...notWhatItShouldBe, ...notPossible])(
    'C15 with %s is answered with the problem, and changes nothing',
    async (_, to, body, message) => {
      const before = await look()
      const answer = await raw.request(subject(to), body instanceof Uint8Array ? body : text(body))
      const reply = JSON.parse(String(answer)) as { accepted: boolean; failure: unknown }
      expect(reply.accepted).toBe(false)
      const failure = Failure.parse(reply.failure)
      expect(failure.message).toMatch(message)
      expect(failure.message.length).toBeLessThan(2_000)
      expect(['invalid', 'superseded', 'conflict', 'incompatible']).toContain(failure.code)
      expect(failure.retry).toBe('never')
      expect(await look()).toEqual(before)
    },
  )

  it('C15 about an unknown operation is answered with unknown', async () => {
    const before = await look()
    expect(await world.status('nobody')).toEqual({ op_id: 'nobody', state: 'unknown' })
    expect(await world.cancel('nobody')).toEqual({ op_id: 'nobody', state: 'unknown' })
    expect(await look()).toEqual(before)
  })

  it('C15 for a backend that no gallery offers fails as not found', async () => {
    expect(await world.install({ backend: 'nobody' })).toEqual({ success: false, error: 'not_found: no gallery offers nobody' })
    expect(await world.upgrade({ backend: 'nobody' })).toEqual({ success: false, error: 'not_found: no gallery offers nobody' })
    expect(await world.remove({ backend: 'nobody' })).toEqual({ success: true })
    expect((await world.list()).map(({ name }) => name)).toEqual(['fine'])
  })

  it('C8 of 2 MB ends the connection of its sender, and is refused before sending by our own client', async () => {
    const before = await look()
    await using other = await connectRawNats(world.nats.port)
    other.publish(subject('backend.install'), Buffer.alloc(2 * 1024 ** 2, 'x'))
    await waitFor(() => other.isClosed(), { what: 'the server to close it' })
    const body = { backend: 'a', backend_galleries: '\u0001'.repeat(250_000) }
    const sending = world.bus.request(backendInstall, { node: world.node }, body, { timeoutMs: 60_000 })
    expect(await sending.catch((error: unknown) => error instanceof BusError && error.code)).toBe('too_large')
    expect(await look()).toEqual(before)
  })

  it('C15 without a reply subject, or on a subject without responders, does nothing', async () => {
    const before = await look()
    for (const payload of ['{', '{}', text({ backend: '../x' })]) raw.publish(subject('backend.install'), payload)
    raw.publish(subject('backend.stop'), text({ backend: '../../x', force: 'yes' }))
    raw.publish(subject('stop'), '[')
    expect(await raw.request(subject('backend.format'), '{}')).toBeNull()
    expect(await look()).toEqual(before)
  })

  it('C15 a thousand wrong ones at once leave the worker able to do a right one', async () => {
    const wrong = Array.from({ length: 1000 }, (_, n) => raw.request(subject('backend.install'), text({ backend: `../${n}` })))
    expect(new Set((await Promise.all(wrong)).map((each) => (JSON.parse(String(each)) as { accepted: boolean }).accepted))).toEqual(
      new Set([false]),
    )
    expect(await world.install({ backend: 'second', uri: `${registry.host}/fine:v1` })).toEqual({ success: true })
    expect((await world.list()).map(({ name }) => name).toSorted()).toEqual(['fine', 'second'])
  })
})
