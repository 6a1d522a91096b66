import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, type Fields, type Log, silentLog } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { runService, type Service } from './run-service.ts'

const never = new Promise<never>(() => undefined)
/** Waits are only over when they are given up: nothing here is ever too late. */
const patient: Clock = {
  now: () => 0,
  monotonic: () => 0,
  sleep: (_, signal) => new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(new Error('given up')))),
}
/** Every limit is over at once, but not before work that takes no time. */
const impatient: Clock = { ...patient, sleep: () => nextTurn() }

function setUp(some: { clock?: Clock; service?: Partial<Service> } = {}) {
  const happened: string[] = []
  const logged: { message: string; fields: Fields | undefined }[] = []
  const note = (message: string, fields?: Fields): void => void logged.push({ message, fields })
  const log: Log = { ...silentLog, error: note, warn: note }
  const started = Promise.withResolvers<void>()
  const run = runService({
    log,
    clock: some.clock ?? patient,
    exit: (code) => void happened.push(`exit ${code}`),
    start: async () => {
      started.resolve()
      return { ended: never, stop: async () => void happened.push('stopped'), ...some.service }
    },
  })
  return { run, happened, logged, started: started.promise }
}

const listeners = (): number[] =>
  ['SIGINT', 'SIGTERM', 'uncaughtException', 'unhandledRejection'].map((name) => process.listenerCount(name))

describe('runService', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('stops in order on %s and leaves no listener', async (signal) => {
    const before = listeners()
    const { run, happened, started } = setUp()
    await started
    process.emit(signal, signal)
    await run
    expect(happened).toEqual(['stopped'])
    expect(listeners()).toEqual(before)
  })

  it('ends at once after a second signal', async () => {
    const stopping = Promise.withResolvers<void>()
    let now = 0
    const { run, happened, started } = setUp({ clock: { ...patient, monotonic: () => now }, service: { stop: () => stopping.promise } })
    await started
    process.emit('SIGINT', 'SIGINT')
    // Ctrl-C, forwarded once more by npm: the same request.
    process.emit('SIGINT', 'SIGINT')
    expect(happened).toEqual([])
    now = 1_500
    process.emit('SIGINT', 'SIGINT')
    await waitFor(() => happened.length > 0, { what: 'the exit' })
    expect(happened).toEqual(['exit 1'])
    stopping.resolve()
    await run
  })

  it('kills the processes of backends on a second signal, before it exits', async () => {
    let now = 0
    const [killed, drained] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { run, happened, logged, started } = setUp({
      clock: { ...patient, monotonic: () => now },
      service: {
        drain: () => drained.promise,
        kill: async () => {
          happened.push('killed')
          await killed.promise
        },
      },
    })
    await started
    await nextTurn()
    process.emit('SIGINT', 'SIGINT')
    now = 1_500
    process.emit('SIGINT', 'SIGINT')
    await nextTurn()
    expect(happened).toEqual(['killed'])
    killed.resolve()
    await waitFor(() => happened.length > 1, { what: 'the exit' })
    expect(happened).toEqual(['killed', 'exit 1'])
    expect(logged).toEqual([])
    drained.resolve()
    await run
  })

  it('does not wait for that on a third signal', async () => {
    let now = 0
    const drained = Promise.withResolvers<void>()
    const { run, happened, started } = setUp({
      clock: { ...patient, monotonic: () => now },
      service: { drain: () => drained.promise, kill: () => never },
    })
    await started
    await nextTurn()
    for (now of [0, 1_500, 3_000]) process.emit('SIGINT', 'SIGINT')
    expect(happened).toEqual(['exit 1'])
    drained.resolve()
    await run
  })

  it.each<[string, Partial<Service>]>([
    ['that cannot be killed in time', { kill: () => never }],
    ['whose end is not known', { kill: () => Promise.reject(new Error('no /proc')) }],
  ])('says before it exits that processes of backends are left running, %s', async (_, service) => {
    let now = 0
    const drained = Promise.withResolvers<void>()
    const { run, happened, logged, started } = setUp({
      clock: { ...impatient, monotonic: () => now },
      service: { drain: () => drained.promise, ...service },
    })
    await started
    await nextTurn()
    for (now of [0, 1_500]) process.emit('SIGINT', 'SIGINT')
    await waitFor(() => happened.length > 0, { what: 'the exit' })
    expect(logged.at(-1)?.message).toMatch(/left running; the next start adopts or ends them/)
    drained.resolve()
    await run
  })

  it('drains before it stops, without a limit of its own', async () => {
    const drained = Promise.withResolvers<void>()
    const { run, happened, started } = setUp({ service: { drain: () => drained.promise } })
    await started
    await nextTurn()
    process.emit('SIGTERM', 'SIGTERM')
    await nextTurn()
    expect(happened).toEqual([])
    drained.resolve()
    await run
    expect(happened).toEqual(['stopped'])
  })

  it('ends the drain after a bug', async () => {
    const { run, happened, started } = setUp({ service: { drain: () => never } })
    await started
    await nextTurn()
    process.emit('SIGTERM', 'SIGTERM')
    process.emit('uncaughtException', new Error('a bug'))
    await run
    expect(happened).toEqual(['stopped', 'exit 1'])
  })

  it('does not drain a service that failed', async () => {
    const { run, happened } = setUp({ service: { ended: Promise.reject(new Error('removed')), drain: () => never } })
    await expect(run).rejects.toThrow('removed')
    expect(happened).toEqual(['stopped'])
  })

  it('ends without a service that does not stop in time, and kills the processes of its backends', async () => {
    const kill = async (): Promise<void> => void happened.push('killed')
    const { run, happened, logged, started } = setUp({ clock: impatient, service: { stop: () => never, kill } })
    await started
    await nextTurn()
    process.emit('SIGTERM', 'SIGTERM')
    await run
    expect(happened).toEqual(['killed', 'exit 1'])
    expect(logged).toMatchObject([{ fields: { limitMs: 10_000 } }])
  })

  it('stops a service that was still starting when the signal came', async () => {
    const happened: string[] = []
    const running = Promise.withResolvers<Service>()
    let signal: AbortSignal | undefined
    const start = (given: AbortSignal): Promise<Service> => {
      signal = given
      return running.promise
    }
    const run = runService({ log: silentLog, clock: patient, exit: (code) => void happened.push(`exit ${code}`), start })
    process.emit('SIGTERM', 'SIGTERM')
    expect(signal?.aborted).toBe(true)
    running.resolve({ ended: never, stop: async () => void happened.push('stopped') })
    await run
    expect(happened).toEqual(['stopped'])
  })

  it('takes a start that gave up because of the signal for a stop, not for a failure', async () => {
    const start = (signal: AbortSignal): Promise<Service> =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('gave up'))))
    const run = runService({ log: silentLog, clock: patient, exit: () => undefined, start })
    process.emit('SIGTERM', 'SIGTERM')
    await expect(run).resolves.toBeUndefined()
  })

  it.each<[string, (bug: Error) => boolean]>([
    ['an exception that nobody caught', (bug) => process.emit('uncaughtException', bug)],
    ['a rejection that nobody handled', (bug) => process.emit('unhandledRejection', bug, never)],
  ])('logs %s as a bug, tries to stop, and ends with 1', async (_, strike) => {
    const { run, happened, logged, started } = setUp()
    await started
    const bug = new Error('a bug')
    strike(bug)
    await run
    expect(happened).toEqual(['stopped', 'exit 1'])
    expect(logged).toEqual([{ message: 'this is a bug in muster', fields: { error: bug } }])
  })

  it('prints why it could not start, in a sentence', async () => {
    const run = (error: unknown) =>
      runService({ log: silentLog, clock: patient, exit: () => undefined, start: () => Promise.reject(error) })
    await expect(run(new Error('the disk is full'))).rejects.toMatchObject({
      name: 'CliError',
      exitCode: 1,
      message: 'could not start: the disk is full',
    })
    const failure = new FleetError({ code: 'conflict', retry: 'never', message: 'in use' })
    await expect(run(failure)).rejects.toBe(failure)
    const bug = new TypeError('x is not a function')
    await expect(run(bug)).rejects.toBe(bug)
  })

  it('stops the others and prints the reason when it ends without a signal', async () => {
    const { run, happened } = setUp({ service: { ended: Promise.reject(new Error('removed')) } })
    await expect(run).rejects.toThrow('removed')
    expect(happened).toEqual(['stopped'])
  })

  it('is done when it ends in order without a signal', async () => {
    const { run, happened } = setUp({ service: { ended: Promise.resolve() } })
    await run
    expect(happened).toEqual(['stopped'])
  })
})
