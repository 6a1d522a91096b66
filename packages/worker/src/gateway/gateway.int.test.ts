import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { mintGatewayToken, silentLog, systemClock } from '@muster/host'
import { gatewayScope, NodeId, Resources } from '@muster/protocol'
import { freePort } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { createWorkerMetrics } from '../metrics.ts'
import { openGateway, type Gateway } from './gateway.ts'
import { nothingBehind } from '../../test/nothing-behind.ts'
import { type StartGatewayDeps, startGateway, routeAddress } from './start-gateway.ts'

const opened: Gateway[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((gateway) => gateway.close()))
})

let isReady = false
const metrics = createWorkerMetrics({
  resources: () => Resources.parse({ total_ram: 1024, gpu_vendor: 'nvidia', total_vram: 77 }),
  isBusConnected: () => isReady,
})
const identity = { nodeId: NodeId.parse('n-1'), secret: 'sesame' }
const deps = { ...nothingBehind, isReady: () => isReady, identity: () => identity, metrics, log: silentLog }

async function open(host = '127.0.0.1'): Promise<{ gateway: Gateway; url: string }> {
  const gateway = await openGateway({ ...deps, host, port: 0 })
  opened.push(gateway)
  return { gateway, url: `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${gateway.port}` }
}
const outward = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === 'IPv4' && !each.internal)?.address

describe('the gateway', () => {
  it('reports liveness and readiness', async () => {
    const { url } = await open()
    for (isReady of [false, true]) {
      expect((await fetch(`${url}/healthz`)).status).toBe(200)
      expect((await fetch(`${url}/readyz`)).status).toBe(isReady ? 200 : 503)
    }
    expect(await (await fetch(`${url}/version`)).json()).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
  })

  it('W41 serves metrics, without unknown values', async () => {
    const { url } = await open()
    metrics.heartbeatSent()
    metrics.polled('ok')
    const response = await fetch(`${url}/metrics`)
    expect(response.headers.get('content-type')).toContain('text/plain')
    const text = await response.text()
    expect(text).toContain('muster_worker_heartbeats_total 1')
    expect(text).toContain('muster_worker_session_polls_total{outcome="ok"} 1')
    expect(text).toMatch(/^muster_worker_total_ram_bytes\{.*\} 1024$/m)
    expect(text).toMatch(/^muster_worker_total_vram_bytes\{gpu_vendor="nvidia"\} 77$/m)
    expect(text).not.toMatch(/^muster_worker_available_vram_bytes/m)
  })

  it.each([
    ['GET', '/'],
    ['GET', '/healthz/x'],
    ['POST', '/healthz'],
    ['GET', '/../etc/passwd'],
    ['GET', '//healthz'],
  ])('knows no %s %s', async (method, path) => {
    const { url } = await open()
    const response = await fetch(`${url}${path}`, { method, ...(method === 'POST' ? { body: 'x'.repeat(100_000) } : {}) })
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
  })

  it('refuses endless headers', async () => {
    const { gateway } = await open()
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(`GET /healthz HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
    const [answer] = await new Promise<Buffer[]>((resolve) => socket.once('data', (data) => resolve([data])))
    expect(answer?.toString()).toContain(' 431 ')
    socket.destroy()
  })

  it.skipIf(outward === undefined)('keeps its metrics from strangers on an address that others reach', async () => {
    const { url } = await open(outward)
    const token = mintGatewayToken({ ...identity, scope: gatewayScope.metrics, controller: 'c-1' })
    expect((await fetch(`${url}/metrics`)).status).toBe(401)
    expect((await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer sesame' } })).status).toBe(401)
    expect((await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200)
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
  })
})

describe('its address', () => {
  const door = (over: Partial<StartGatewayDeps>): StartGatewayDeps => ({
    ...deps,
    settings: { gatewayListen: undefined, gatewayUrl: undefined },
    controllers: ['http://127.0.0.1:8080'],
    lastPort: null,
    random: () => 0,
    clock: systemClock,
    log: silentLog,
    signal: AbortSignal.timeout(5000),
    ...over,
  })
  const urlOf = async (over: Partial<StartGatewayDeps>): Promise<string> => {
    const { gateway, url } = await startGateway(door(over))
    opened.push(gateway)
    return url
  }

  it('is the one on the route to the controller', async () => {
    expect(await urlOf({})).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  })

  it('is reported as the one on the route to the controller when it listens on all addresses', async () => {
    expect(await urlOf({ settings: { gatewayListen: '0.0.0.0:0', gatewayUrl: undefined } })).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  })

  it('is reported as configured', async () => {
    expect(await urlOf({ settings: { gatewayListen: '127.0.0.1', gatewayUrl: 'https://w.example/gate' } })).toBe('https://w.example/gate')
  })

  it('is found through the next controller when one has no address', async () => {
    expect(await urlOf({ controllers: ['http://no-such-host.invalid:8080', 'http://127.0.0.1:1'] })).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  })

  it('has the port of the last run, unless another program took it or the settings name one', async () => {
    const lastPort = await freePort()
    expect(await urlOf({ lastPort })).toBe(`http://127.0.0.1:${lastPort}`)
    // The gateway that was just opened has it.
    const other = await urlOf({ lastPort })
    expect(other).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(other).not.toBe(`http://127.0.0.1:${lastPort}`)
    const named = await freePort()
    expect(await urlOf({ lastPort, settings: { gatewayListen: `127.0.0.1:${named}`, gatewayUrl: undefined } })).toBe(
      `http://127.0.0.1:${named}`,
    )
  })

  it('is refused, naming the flag, when the port is taken', async () => {
    const { gateway } = await open()
    await expect(urlOf({ settings: { gatewayListen: `127.0.0.1:${gateway.port}`, gatewayUrl: undefined } })).rejects.toThrow(
      /--gateway-listen.*EADDRINUSE/,
    )
  })

  it.skipIf(outward === undefined)('is an outward address for a controller elsewhere', async () => {
    expect(await routeAddress(new URL(`http://${outward}:80`))).toBe(outward)
  })
})
