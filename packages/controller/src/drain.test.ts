import { resolveSettings } from '@muster/host'
import { expect, it } from 'vitest'
import { drainDelayOf } from './drain.ts'
import { controllerSettings } from './settings.ts'

it.each<[string, Record<string, string>, number]>([
  ['an address of the network', { host: '10.0.0.7' }, 5_000],
  ['every address', { host: '0.0.0.0' }, 5_000],
  ['every address, also of IPv6', { host: '::' }, 5_000],
  ['loopback', { host: '127.0.0.1' }, 0],
  ['loopback of IPv6', { host: '::1' }, 0],
  ['localhost', { host: 'localhost' }, 0],
  ['loopback with a public URL, so behind a proxy', { host: '127.0.0.1', 'public-url': 'https://muster.example' }, 5_000],
  ['loopback with a public URL of this machine', { host: '127.0.0.1', 'public-url': 'http://localhost:8080' }, 0],
  ['loopback with a delay of its own', { host: '127.0.0.1', 'drain-delay': '3s' }, 3_000],
  ['an address of the network without a delay', { host: '10.0.0.7', 'drain-delay': '0' }, 0],
])('a controller that listens on %s: %j drains for %i ms before it refuses connections', (_, flags, ms) => {
  expect(drainDelayOf(resolveSettings(controllerSettings, { flags, env: {} }))).toBe(ms)
})
