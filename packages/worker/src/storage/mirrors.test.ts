import { type Failure, FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { tryMirrors } from './mirrors.ts'

const failures = {
  away: { code: 'unavailable', retry: 'backoff', message: 'the mirror is away' },
  gone: { code: 'not_found', retry: 'never', message: 'it is gone' },
  changed: { code: 'integrity', retry: 'never', message: 'it has changed' },
  damaged: { code: 'integrity', retry: 'backoff', message: 'it was damaged' },
} as const satisfies Record<string, Failure>

it.each<[string, readonly (keyof typeof failures)[], keyof typeof failures]>([
  ['every source has changed', ['changed', 'changed'], 'changed'],
  ['the first reason counts when no attempt helps', ['gone', 'changed'], 'gone'],
  ['another source may return', ['changed', 'away'], 'away'],
  ['the first of those that may return counts', ['gone', 'away', 'damaged'], 'away'],
  ['a source that may return comes first', ['damaged', 'gone'], 'damaged'],
])('a fetch that fails everywhere: %s', async (_, sources, want) => {
  const mirrors = sources.map((name) => () => Promise.reject(new FleetError(failures[name])))
  const fetched = tryMirrors({
    mirrors,
    incomingSize: async () => 0,
    fetch: async (open) => await open(0),
    clock: createManualClock(),
    signal: new AbortController().signal,
  })
  await expect(fetched).rejects.toMatchObject({ failure: failures[want] })
})
