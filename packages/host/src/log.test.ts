import { FleetError } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { systemClock } from './clock.ts'
import { createLog, silentLog, type LogFormat, type LogLevel } from './log.ts'
import { Secret } from './secret.ts'

const clock = { ...systemClock, now: () => Date.UTC(2025, 0, 2, 3, 4, 5, 6) }

function capture(format: LogFormat, level: LogLevel = 'debug') {
  const lines: string[] = []
  const log = createLog({ format, level, clock, stream: { write: (line) => lines.push(line) } })
  return { log, text: () => lines.join(''), json: () => lines.map((line): Record<string, unknown> => JSON.parse(line)) }
}

describe('text', () => {
  it('is one line of time, level, message and fields', () => {
    const { log, text } = capture('text')
    log.info('task settled', {
      nodeId: 'n1',
      attempts: 2,
      ok: true,
      note: 'two words',
      empty: '',
      list: [1, 'a'],
      none: null,
      left: undefined,
    })
    expect(text()).toBe(
      '2025-01-02T03:04:05.006Z INFO  task settled nodeId=n1 attempts=2 ok=true note="two words" empty="" list=[1,"a"] none=null\n',
    )
  })

  it('lets no field begin a line or command a terminal', () => {
    const { log, text } = capture('text')
    log.error('bad\nname', {
      name: 'a\nb\u001b[2J',
      'k\ney': 1,
      error: Object.assign(new Error('x\u001b[2J\ny'), { stack: 'x\u001b[2J\ny' }),
    })
    const [, ...rest] = text().trimEnd().split('\n')
    expect(rest).toEqual(['    x\\u001b[2J', '    y'])
    expect(text()).not.toContain('\u001b')
  })

  it('shows message, code and causes of an error, and its stack at the level error only', () => {
    const { log, text } = capture('text')
    const error = new Error('cannot connect', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) })
    log.warn('will try again', { error: Object.assign(error, { code: 'E1' }) })
    expect(text()).toBe('2025-01-02T03:04:05.006Z WARN  will try again error="cannot connect: refused" error.code=E1\n')
    log.error('gave up', { error })
    expect(text()).toMatch(
      /gave up error="cannot connect: refused" error\.code=E1\n {4}Error: cannot connect\n {8}at [^]+\n {4}caused by Error: refused\n {8}at /,
    )
  })
})

describe('json', () => {
  it('is a line of pino, with process and host', () => {
    const { log, json } = capture('json')
    log.info('started', { port: 8080 })
    expect(json()).toEqual([{ level: 30, time: clock.now(), pid: process.pid, hostname: expect.any(String), port: 8080, msg: 'started' }])
  })

  it('shows the failure code of a FleetError, its stack at any level, and nothing else of an error', () => {
    const { log, json } = capture('json')
    const error = new FleetError({ code: 'timeout', retry: 'backoff', message: 'no answer' })
    log.debug('asked', { error: Object.assign(error, { headers: { authorization: 'canary' } }) })
    expect(json()[0]?.error).toEqual({ message: 'no answer', code: 'timeout', stack: expect.stringContaining('log.test.ts') })
  })

  it('describes an error with several reasons and no message', () => {
    const { log, json } = capture('json')
    log.warn('down', { error: new AggregateError([new Error('refused ::1'), new Error('refused 127.0.0.1')]) })
    expect(json()[0]?.error).toMatchObject({ message: 'refused ::1; refused 127.0.0.1' })
  })

  it('ends with an error that is its own cause', () => {
    const { log, text } = capture('json')
    const error = new Error('round')
    error.cause = error
    log.error('circle', { error })
    expect(text().match(/"message":"round"/g)).toHaveLength(6)
  })

  it('writes each key once, also where a message sets a bound field or a key of the line itself', () => {
    const { log, text, json } = capture('json')
    log.child({ nodeId: 'a', pid: 1 }).info('x', { nodeId: 'b', level: 'mine', time: 'mine', msg: 'mine' })
    expect(text().match(/"(nodeId|level|time|msg|pid)":/g)).toHaveLength(5)
    expect(json()[0]).toMatchObject({ nodeId: 'b', pid: 1, level: 30, msg: 'x', _level: 'mine', _time: 'mine', _msg: 'mine' })
  })

  it('survives values that JSON cannot represent', () => {
    const { log, json } = capture('json')
    const circle: Record<string, unknown> = { big: 10n }
    circle.self = circle
    log.info('odd', { circle, big: 5n })
    expect(json()[0]).toMatchObject({ msg: 'odd', circle: { self: '[Circular]' } })
  })
})

it('keeps the fields of children of children', () => {
  const { log, json } = capture('json')
  log.child({ a: 1 }).child({ b: 2 }).info('x', { c: 3 })
  expect(json()[0]).toMatchObject({ a: 1, b: 2, c: 3 })
})

it.each(['text', 'json'] as const)('leaves out what is below its level (%s)', (format) => {
  const { log, text } = capture(format, 'warn')
  log.debug('one')
  log.child({}).info('two')
  log.warn('three')
  expect(text()).not.toMatch(/one|two/)
  expect(text()).toContain('three')
})

it.each(['text', 'json'] as const)('SEC26 a secret in a field, however deep, is never shown (%s)', (format) => {
  const { log, text } = capture(format)
  const token = new Secret('canary')
  const error = new Error(`bad token ${String(token)}`, { cause: token })
  const circle: Record<string, unknown> = { token }
  circle.self = circle
  log.child({ token }).error('joined', { token2: token, deep: { list: [token] }, error, circle })
  expect(text()).toContain('***')
  expect(text()).not.toContain('canary')
})

it('has a silent log', () => {
  expect(silentLog.child({ a: 1 })).toBe(silentLog)
  expect(silentLog.error('x')).toBeUndefined()
})
