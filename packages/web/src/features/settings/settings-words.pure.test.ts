import { expect, it } from 'vitest'
import { describeBus, type BusStatus } from './settings-words.pure.ts'

it.each<[BusStatus, string, RegExp]>([
  [{ kind: 'nats', connected: false, open: true }, 'not connected', /cannot reach NATS/],
  [{ kind: 'local', connected: true }, 'in-process', /--nats-url/],
  [{ kind: 'nats', connected: true, open: true }, 'NATS, open', /muster nats-config/],
  [{ kind: 'nats', connected: true, open: false }, 'NATS, connected', /its own credentials/],
  [{ kind: 'nats', connected: true }, 'NATS, connected', /its own credentials/],
])('%j is %s', (bus, word, sentence) => {
  expect(describeBus(bus)).toMatchObject({ word, sentence: expect.stringMatching(sentence) })
})
