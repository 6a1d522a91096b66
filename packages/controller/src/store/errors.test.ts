import { silentLog, systemClock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { isUnavailable, toFleetError, whileUnavailable } from './errors.ts'

const withCode = (code: string): Error => Object.assign(new Error('text'), { code })

it.each([
  ...[
    '08000',
    '08006',
    '57P01',
    '57P02',
    '57P03',
    '57P05',
    '53100',
    '53200',
    '53300',
    '57014',
    '55P03',
    '25P03',
    '25P04',
    '25006',
    '58030',
  ],
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN', 'ENOTFOUND', 'EHOSTUNREACH', '40001', '40P01'],
])('takes %s for the database being unavailable', (code) => {
  expect(isUnavailable(withCode(code))).toBe(true)
  expect(toFleetError(withCode(code)).failure).toMatchObject({ code: 'unavailable', retry: 'backoff' })
})

it.each(['23505', '42P01', '22P02', '28P01', '3D000', 'EACCES'])('takes %s for something else', (code) => {
  expect(isUnavailable(withCode(code))).toBe(false)
  expect(toFleetError(withCode(code)).failure.code).toBe('internal')
})

it.each([
  'Query read timeout',
  'timeout exceeded when trying to connect',
  'timeout expired',
  'Connection terminated',
  'Connection terminated unexpectedly',
  'Connection terminated due to connection timeout',
  'Client has encountered a connection error and is not queryable',
])('knows what pg says without a code: %s', (message) => {
  expect(isUnavailable(new Error(message))).toBe(true)
})

it('D7 reports a full disk', () => {
  expect(toFleetError(withCode('53100')).failure.message).toContain('disk of the database is full')
})

it('finds the reason in the causes of an error', () => {
  expect(isUnavailable(new Error('migration 7 failed', { cause: withCode('57P01') }))).toBe(true)
  const circle = new Error('round')
  circle.cause = circle
  expect(isUnavailable(circle)).toBe(false)
})

it('leaves a translated failure unchanged', () => {
  const error = new FleetError({ code: 'conflict', retry: 'never', message: 'taken' })
  expect(toFleetError(error)).toBe(error)
  expect(isUnavailable(toFleetError(withCode('57P01')))).toBe(true)
  expect(isUnavailable(new FleetError({ code: 'unavailable', retry: 'backoff', message: 'a node is away' }))).toBe(false)
})

describe('whileUnavailable', () => {
  const busy = new Error('Connection terminated due to connection timeout')
  const slept: number[] = []
  const clock = { ...systemClock, sleep: async (ms: number) => void slept.push(ms) }
  const { signal } = new AbortController()

  it('repeats a step while the database does not answer, without a limit', async () => {
    const outcomes = [...Array.from({ length: 50 }, () => busy), 'done']
    const work = async (): Promise<unknown> => {
      const outcome = outcomes.shift()
      if (outcome instanceof Error) throw outcome
      return outcome
    }
    expect(await whileUnavailable({ clock, log: silentLog, signal }, work)).toBe('done')
    expect(slept).toHaveLength(50)
  })

  it('throws an error that waiting does not repair', async () => {
    const wrongPassword = Object.assign(new Error('password authentication failed'), { code: '28P01' })
    await expect(whileUnavailable({ clock, log: silentLog, signal }, () => Promise.reject(wrongPassword))).rejects.toBe(wrongPassword)
  })

  it('ends with its signal', async () => {
    const stopped = AbortSignal.abort('stopped')
    await expect(whileUnavailable({ clock, log: silentLog, signal: stopped }, () => Promise.reject(busy))).rejects.toBe(busy)
  })
})
