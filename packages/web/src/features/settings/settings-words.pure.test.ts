import { expect, it } from 'vitest'
import { busSentence, type BusStatus } from './settings-words.pure.ts'

it.each<[BusStatus, string, RegExp]>([
  [{ kind: 'nats', connected: false, open: true }, 'not connected', /can’t reach NATS/],
  [{ kind: 'local', connected: true }, 'in the process', /--nats-url/],
  [{ kind: 'nats', connected: true, open: true }, 'NATS, open', /muster nats-config/],
  [{ kind: 'nats', connected: true, open: false }, 'NATS, connected', /Nobody speaks/],
  [{ kind: 'nats', connected: true }, 'NATS, connected', /Nobody speaks/],
])('%j is %s', (bus, word, sentence) => {
  expect(busSentence(bus)).toMatchObject({ word, sentence: expect.stringMatching(sentence) })
})
