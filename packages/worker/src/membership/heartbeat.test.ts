import { createLocalHub } from '@muster/bus'
import { silentLog } from '@muster/host'
import { heartbeat, Incarnation, NodeId, Resources, type Heartbeat } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { startHeartbeat, type HeartbeatDeps } from './heartbeat.ts'

const nodeId = NodeId.parse('n-1')

async function world(over: Partial<HeartbeatDeps> = {}) {
  const clock = createManualClock()
  const hub = createLocalHub({ log: silentLog })
  const heard: { at: number; beat: Heartbeat }[] = []
  hub.connect().subscribe(heartbeat, { node: '*' }, (beat) => void heard.push({ at: clock.monotonic(), beat }))
  let seq = 0
  const beating = startHeartbeat({
    bus: hub.connect(),
    nodeId,
    incarnation: Incarnation.parse('i-1'),
    nextSeq: () => seq++,
    intervalMs: () => 1000,
    resources: () => Resources.parse({ cpus: 4 }),
    activity: () => ({ inFlight: 3, ops: [] }),
    random: () => 0.3,
    onSent: () => undefined,
    clock,
    log: silentLog,
    ...over,
  })
  await clock.advance(0)
  return { clock, hub, heard, beating, times: () => heard.map(({ at }) => at) }
}

describe('a heartbeat', () => {
  it('is published at once, then at a random moment of the interval, then steadily', async () => {
    const { clock, times } = await world()
    expect(times()).toEqual([0])
    await clock.advance(3500)
    expect(times()).toEqual([0, 300, 1300, 2300, 3300])
  })

  it('reports the node and its activity', async () => {
    const { heard } = await world()
    expect(heard[0]?.beat).toMatchObject({
      node_id: 'n-1',
      incarnation: 'i-1',
      seq: 0,
      in_flight: 3,
      ops: [],
      resources: { cpus: 4, total_vram: null },
    })
  })

  it('C1 is published at once when the bus is back, and not while it is away', async () => {
    const { clock, hub, times } = await world()
    await clock.advance(1500)
    hub.interrupt()
    await clock.advance(5000)
    expect(times()).toEqual([0, 300, 1300])
    hub.restore()
    await clock.advance(1400)
    expect(times()).toEqual([0, 300, 1300, 6500, 6800, 7800])
  })

  it('follows a changed interval', async () => {
    let interval = 1000
    const { clock, times } = await world({ intervalMs: () => interval })
    await clock.advance(400)
    interval = 100
    await clock.advance(1100)
    expect(times()).toEqual([0, 300, 1300, 1400, 1500])
  })

  it('continues after one that failed', async () => {
    const log = recordingLog()
    let broken = true
    const { clock, times } = await world({
      log,
      resources: () => {
        if (broken) throw new Error('no figures')
        return Resources.parse({})
      },
    })
    broken = false
    await clock.advance(300)
    expect(times()).toEqual([300])
    expect(log.lines).toMatchObject([{ level: 'error', message: 'cannot publish a heartbeat' }])
  })

  it('stops', async () => {
    const { clock, beating, times } = await world()
    await beating.stop()
    await clock.advance(5000)
    expect(times()).toEqual([0])
  })
})
