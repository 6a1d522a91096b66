import { EventEmitter } from 'node:events'
import { silentLog, systemClock } from '@muster/host'
import type { Client } from 'pg'
import { expect, it } from 'vitest'
import { startListener } from './changes.ts'

const never = new Promise<never>(() => undefined)

/** A server that takes us in and then says nothing more, or not even that. */
function silentClient({ connects }: { connects: boolean }) {
  const asked: unknown[] = []
  const client = Object.assign(new EventEmitter(), {
    connect: () => (connects ? Promise.resolve() : never),
    query: (question: unknown) => (asked.push(question), never),
    end: () => never,
    connection: { stream: { destroy: () => undefined } },
  })
  return { asked, client: client as unknown as Client }
}

it.each([true, false])(
  'stops soon though the server answers nothing (connected: %s)',
  async (connects) => {
    const { client, asked } = silentClient({ connects })
    const listener = startListener(
      { newClient: () => client, clock: systemClock, random: () => 0, log: silentLog },
      { channel: 'c', onNotify: () => undefined },
    )
    await new Promise(setImmediate)
    expect(asked).toHaveLength(connects ? 1 : 0)
    if (connects) expect(asked[0]).toMatchObject({ query_timeout: expect.any(Number) })
    await listener.stop()
  },
  2_000,
)
