// The warning about an open bus at the start of a controller.
import { createNatsConfig } from '@muster/bus'
import { resolveSettings, silentLog, systemClock } from '@muster/host'
import { expect, it } from 'vitest'
import { connectBus } from './connect-bus.ts'
import { controllerSettings } from './settings.ts'

const { accountSeed } = await createNatsConfig()

/** The warnings at its start; nothing is at these addresses. */
async function warningsOf(flags: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const warnings: string[] = []
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) }
  const stopping = new AbortController()
  const settings = resolveSettings(controllerSettings, { flags, env })
  const { bus } = await connectBus({ settings, clock: systemClock, log, signal: stopping.signal })
  stopping.abort()
  await bus.close()
  return warnings.filter((message) => message.includes('nats-config'))
}

it.each([
  ['on another machine', { 'nats-url': 'nats://nats.invalid' }],
  ['with one password for all', { 'nats-url': 'nats://user:password@nats.invalid:4222' }],
  ['of which one server is elsewhere', { 'nats-url': 'nats://127.0.0.1:1,nats://nats.invalid' }],
  ['that workers reach from elsewhere', { 'nats-url': 'nats://127.0.0.1:1', 'worker-nats-url': 'nats://nats.invalid' }],
])('SEC7 warns that NATS %s, without an account seed, is open', async (_, flags) => {
  expect(await warningsOf(flags)).toEqual([expect.stringMatching(/can impersonate every node/)])
})

it.each([
  ['on this machine alone', { 'nats-url': 'nats://127.0.0.1:1, nats://localhost:1, nats://[::1]:1' }, {}],
  ['with an account seed', { 'nats-url': 'nats://nats.invalid' }, { MUSTER_NATS_ACCOUNT_SEED: accountSeed }],
])('does not warn about NATS %s', async (_, flags, env) => {
  expect(await warningsOf(flags, env)).toEqual([])
})
