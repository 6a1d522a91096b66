// TLS against a real nats-server with a certificate that no system trusts.
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { resolveSettings, silentLog, systemClock } from '@muster/host'
import { makeCertificate, makeTempDir, startNats, waitFor, type NatsServer, type TempDir } from '@muster/testkit'
import type { Bus } from './bus.ts'
import { recordingLog } from '../test/contract-suite.ts'
import { connectNats } from './nats/connect-nats.ts'
import { natsTlsSettings, readNatsTls, type NatsTls } from './nats/nats-tls.ts'

let dir: TempDir
let server: NatsServer
const buses: Bus[] = []
const pathOf = (name: string): string => join(dir.path, name)

beforeAll(async () => {
  dir = await makeTempDir('nats-tls')
  for (const [name, certificate] of [
    ['server', makeCertificate('127.0.0.1')],
    ['client', makeCertificate('client')],
  ] as const) {
    await writeFile(pathOf(`${name}.pem`), certificate.cert)
    await writeFile(pathOf(`${name}.key`), certificate.key, { mode: 0o600 })
  }
  const own = ['--tlscert', pathOf('server.pem'), '--tlskey', pathOf('server.key')]
  server = await startNats({ args: ['--tlsverify', '--tlscacert', pathOf('client.pem'), ...own] })
})
afterAll(async () => {
  for (const bus of buses) await bus.close()
  await server.stop()
  await dir.remove()
})

const read = (flags: Readonly<Record<string, string>>): NatsTls | null => readNatsTls(resolveSettings(natsTlsSettings, { flags, env: {} }))
const all = () => ({ 'nats-ca': pathOf('server.pem'), 'nats-cert': pathOf('client.pem'), 'nats-key': pathOf('client.key') })

async function connect(tls: NatsTls | null, log = silentLog): Promise<Bus> {
  const bus = await connectNats({
    url: `tls://127.0.0.1:${server.port}`,
    tls,
    name: 'test',
    inboxPrefix: '_INBOX_t',
    clock: systemClock,
    log,
  })
  buses.push(bus)
  return bus
}

describe('NATS with TLS', () => {
  it('is used with its certificate authority and a certificate of the client', async () => {
    const bus = await connect(read(all()))
    await waitFor(() => bus.isConnected(), { what: 'the connection' })
  })

  it.each<[string, () => NatsTls | null, RegExp]>([
    ['a certificate that the system does not trust', () => null, /certificate/i],
    ['no certificate of the client', () => read({ 'nats-ca': pathOf('server.pem') }), /cannot connect|lost/],
  ])('is not used with %s, and the log has the reason', async (_, tls, reason) => {
    const log = recordingLog()
    const bus = await connect(tls(), log)
    await waitFor(() => reason.test(JSON.stringify(log.lines)), { what: 'the reason in the log' })
    expect(bus.isConnected()).toBe(false)
  })

  it('is not left out by a server without it', async () => {
    const plain = await startNats()
    const log = recordingLog()
    const tls = read({ 'nats-ca': pathOf('server.pem') })
    const bus = await connectNats({ url: plain.url, tls, name: 'test', inboxPrefix: '_INBOX_t', clock: systemClock, log })
    buses.push(bus)
    await waitFor(() => JSON.stringify(log.lines).includes('cannot connect'), { what: 'the refusal in the log' })
    expect(bus.isConnected()).toBe(false)
    await plain.stop()
  })
})

describe('the files', () => {
  it.each<[string, () => Promise<Record<string, string>>, RegExp]>([
    ['a missing file', async () => ({ 'nats-ca': pathOf('none.pem') }), /--nats-ca .*ENOENT/],
    ['a key in place of a certificate', async () => ({ 'nats-ca': pathOf('server.key') }), /--nats-ca .*has no certificate/],
    ['a certificate in place of a key', async () => ({ ...all(), 'nats-key': pathOf('client.pem') }), /--nats-key .*no private key/],
    ['a certificate without its key', async () => ({ 'nats-cert': pathOf('client.pem') }), /--nats-cert and --nats-key need each other/],
    [
      'a key that everyone can read',
      async () => {
        await chmod(pathOf('client.key'), 0o644)
        return all()
      },
      /--nats-key .*chmod 600/,
    ],
  ])('are refused at the start: %s', async (_, flags, message) => {
    const given = await flags()
    expect(() => read(given)).toThrow(message)
  })
})
