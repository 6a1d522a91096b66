import { expect, it } from 'vitest'
import { describeBus, describeChange, type BusStatus, whyFixed } from './settings-words.pure.ts'

it.each<[BusStatus, string, RegExp]>([
  [{ kind: 'nats', connected: false, open: true }, 'not connected', /cannot reach NATS/],
  [{ kind: 'local', connected: true }, 'in-process', /--nats-url/],
  [{ kind: 'nats', connected: true, open: true }, 'NATS, open', /muster nats-config/],
  [{ kind: 'nats', connected: true, open: false }, 'NATS, connected', /its own credentials/],
  [{ kind: 'nats', connected: true }, 'NATS, connected', /its own credentials/],
])('%j is %s', (bus, word, sentence) => {
  expect(describeBus(bus)).toMatchObject({ word, sentence: expect.stringMatching(sentence) })
})

it.each<[string, Parameters<typeof whyFixed>[0], string | null]>([
  ['a setting of an older controller', {}, null],
  ['a setting of the start', { is_runtime: false, pinned_by: null }, null],
  ['a setting that can change', { is_runtime: true, pinned_by: null }, null],
  ['a pinned setting', { is_runtime: true, pinned_by: 'MUSTER_X of http://a' }, 'Pinned by MUSTER_X of http://a: change it there.'],
])('%s', (_, setting, want) => {
  expect(whyFixed(setting)).toBe(want)
})

it('a change names both values', () => {
  expect(describeChange({ before: null, after: '2m' })).toBe('default → 2m')
  expect(describeChange({ before: '2m', after: null })).toBe('2m → default')
})
