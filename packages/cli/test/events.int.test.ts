// Following the event stream over a real connection, through losses of it.
import { type Clock, systemClock } from '@muster/host'
import { systemRoutes } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createApiClient } from '../src/client/api-client.ts'
import { followEvents, type StreamItem } from '../src/client/events.ts'
import { type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
let end: AbortController
beforeEach(async () => {
  controller = await startScriptedController()
  end = new AbortController()
})
afterEach(async () => {
  end.abort()
  await controller[Symbol.asyncDispose]()
})

const hurried: Clock = { ...systemClock, sleep: (_, signal) => systemClock.sleep(5, signal) }

function follow(some: { silenceMs?: number } = {}) {
  const items: StreamItem[] = []
  const api = createApiClient({
    target: { url: new URL(controller.url), urlFrom: 'test', key: null, keyFrom: 'test', isKeyWithheld: false },
    userAgent: 'test',
    clock: hurried,
  })
  const done = (async () => {
    for await (const item of followEvents({ api, clock: hurried, signal: end.signal, ...some })) items.push(item)
  })()
  done.catch(() => undefined)
  const kinds = (): string[] => items.map((item) => (item.kind === 'event' ? item.event.data : item.kind))
  return { done, kinds, until: (what: string) => waitFor(() => kinds().includes(what), { what }) }
}

describe('followEvents', () => {
  it('passes events on, and ends on abort', async () => {
    const { done, kinds, until } = follow()
    await until('connected')
    controller.emit({ type: 'node', id: '7', data: 1 })
    await until('1')
    end.abort()
    await done
    expect(kinds()).toEqual(['connected', '1'])
  })

  it('comes back after a loss, with the id of the last event', async () => {
    const { until, kinds } = follow()
    await until('connected')
    controller.emit({ type: 'node', id: '7', data: 1 })
    controller.emit({ type: 'node', data: 2 })
    await until('2')
    controller.dropFollowers()
    await waitFor(() => controller.followers() === 1 && controller.asked.length === 2, { what: 'the second connection' })
    controller.emit({ type: 'node', id: '8', data: 3 })
    await until('3')
    expect(kinds()).toEqual(['connected', '1', '2', 'lost', 'connected', '3'])
    expect(controller.asked.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '7'])
  })

  it('takes silence for a loss', async () => {
    const { until } = follow({ silenceMs: 50 })
    await until('lost')
    expect(controller.asked.length).toBeGreaterThanOrEqual(1)
  })

  it('tries again while the server is away or busy', async () => {
    const { until, kinds } = follow()
    await until('connected')
    controller.refuse(systemRoutes.events, 503, { code: 'unavailable', message: 'starting' })
    controller.dropFollowers()
    await waitFor(() => controller.asked.length >= 4, { what: 'three more tries' })
    expect(kinds().filter((kind) => kind === 'connected')).toHaveLength(1)
  })

  it('gives up when the key is no longer good', async () => {
    const { done, until } = follow()
    await until('connected')
    controller.refuse(systemRoutes.events, 401, { code: 'unauthorized', message: 'revoked' })
    controller.dropFollowers()
    await expect(done).rejects.toThrow('revoked')
  })

  it('does not wait for a server that was never there', async () => {
    controller.refuse(systemRoutes.events, 503, { code: 'unavailable', message: 'starting' })
    await expect(follow().done).rejects.toThrow('starting')
  })
})
