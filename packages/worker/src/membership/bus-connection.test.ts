import { createLocalHub, type Bus } from '@muster/bus'
import { silentLog } from '@muster/host'
import { NodeId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { createBusConnection, type BusMembership, type BusTarget } from './bus-connection.ts'

const place = (over: Partial<BusMembership['bus']> = {}, nodeId = 'n-1'): BusMembership => ({
  nodeId: NodeId.parse(nodeId),
  bus: { url: 'nats://a', credentials: 'first', expires_at: null, ...over },
})

function world() {
  const hub = createLocalHub({ log: silentLog })
  const log = recordingLog()
  const connected: BusTarget[] = []
  const happened: string[] = []
  const link = createBusConnection({
    log,
    connectBus: async (target): Promise<Bus> => {
      if (target.url === 'bad') throw new Error('not a URL')
      connected.push(target)
      return hub.connect()
    },
    attach: (_, nodeId) => {
      happened.push(`${nodeId} on`)
      return { stop: async (farewell) => void happened.push(`${nodeId} off${farewell ? ', goodbye' : ''}`) }
    },
  })
  return { link, log, connected, happened, settled: () => new Promise((resolve) => setImmediate(resolve)) }
}

describe('the connection to the bus', () => {
  it('exists while the node is a member', async () => {
    const { link, happened, settled } = world()
    expect(link.isConnected()).toBe(false)
    link.set(place())
    await settled()
    expect(link.isConnected()).toBe(true)
    link.set(null)
    await link.close(true)
    expect(link.isConnected()).toBe(false)
    expect(happened).toEqual(['n-1 on', 'n-1 off'])
  })

  it('W22 stays when credentials are renewed, and uses the newest for its next connection', async () => {
    const { link, connected, happened, settled } = world()
    link.set(place())
    link.set(place({ credentials: 'second', expires_at: '2030-01-01T00:00:00Z' }))
    await settled()
    expect(happened).toEqual(['n-1 on'])
    expect(connected.map(({ credentials }) => credentials())).toEqual(['second'])
    await link.close(false)
  })

  it.each([
    ['another URL', place({ url: 'nats://b' })],
    ['another node', place({}, 'n-2')],
    ['no credentials any more', place({ credentials: null })],
  ])('is made anew for %s, without a goodbye', async (_, next) => {
    const { link, happened, settled } = world()
    link.set(place())
    await settled()
    link.set(next)
    await settled()
    expect(happened).toEqual(['n-1 on', 'n-1 off', `${next.nodeId} on`])
    await link.close(false)
  })

  it('is not opened after close', async () => {
    const { link, happened } = world()
    link.set(place())
    await link.close(true)
    expect(happened).toEqual([])
  })

  it('publishes a goodbye on a deliberate stop', async () => {
    const { link, happened, settled } = world()
    link.set(place())
    await settled()
    await link.close(true)
    await link.close(false)
    expect(happened).toEqual(['n-1 on', 'n-1 off, goodbye'])
  })

  it('closes a bus that cannot be attached to', async () => {
    const bus = createLocalHub({ log: silentLog }).connect()
    const link = createBusConnection({
      log: silentLog,
      connectBus: async () => bus,
      attach: () => {
        throw new Error('not today')
      },
    })
    link.set(place())
    await expect.poll(() => bus.isConnected()).toBe(false)
    await link.close(false)
  })

  it('logs an invalid URL, and uses the next one', async () => {
    const { link, log, happened, settled } = world()
    link.set(place({ url: 'bad' }))
    await settled()
    expect(log.lines).toMatchObject([{ level: 'error', message: 'cannot connect to the bus' }])
    link.set(place())
    await settled()
    expect(happened).toEqual(['n-1 on'])
    await link.close(false)
  })
})
