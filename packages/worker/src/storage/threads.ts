// The threads where the store hashes and unpacks, so that the main thread never waits for either. One is shared by all
// downloads; the busy jobs get one each, as many at a time as there are processors, the others wait for their turn.
// Starting one costs half a second of processor time and some 40 MB: one that has nothing to do is used for what comes next.
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { FleetError } from '@muster/protocol'
import { createSemaphore } from './locks.ts'
import { withSigns } from './signs.ts'
import type { FromThread, JobKind, Jobs, ToThread } from './thread/jobs.ts'

/** For names of 200,000 entries and the like; beyond it a job fails instead of the process. What is new is mostly chunks on
 *  their way: a small space for it seems to lower the peak of an install, by less than its noise (bench/README.md). */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 8 }

export interface JobOptions {
  readonly signal: AbortSignal
  readonly onProgress?: (current: number, total: number) => void
  /** It goes on, or its turn has not come. */
  readonly onSign?: () => void
  readonly step?: (name: string) => Promise<void> | void
}

export interface RunningJob<Result> {
  readonly result: Promise<Result>
  grow(bytes: number): void
  finish(): void
}

export interface Threads {
  /** Waits for its turn; ends, also when cancelled, only after the job has stopped touching anything. */
  run<K extends Exclude<JobKind, 'follow'>>(kind: K, job: Jobs[K]['job'], options: JobOptions): Promise<Jobs[K]['result']>
  hash(path: string, options: Pick<JobOptions, 'signal' | 'onSign'>): RunningJob<string>
  close(): Promise<void>
}

export function createThreads(): Threads {
  const turns = createSemaphore(availableParallelism())
  const idle: Thread[] = []
  let shared: { readonly thread: Thread; followers: number } | null = null
  let isClosed = false
  const obtain = (): Thread => {
    if (isClosed) throw new Error('the store is closed')
    return idle.pop() ?? startThread()
  }
  const giveBack = (thread: Thread): void => {
    if (thread.isAlive()) idle.push(thread)
  }
  const joinShared = (): { readonly thread: Thread; leave(): void } => {
    const joined = shared?.thread.isAlive() ? shared : { thread: obtain(), followers: 0 }
    shared = joined
    joined.followers++
    const leave = (): void => {
      if (--joined.followers > 0) return
      if (shared === joined) shared = null
      giveBack(joined.thread)
    }
    return { thread: joined.thread, leave }
  }
  return {
    run: (kind, job, options) =>
      withSigns(options.onSign, (come) =>
        turns.run(options.signal, async () => {
          come()
          const thread = obtain()
          try {
            return await thread.start(kind, job, options).result
          } finally {
            giveBack(thread)
          }
        }),
      ),
    hash: (path, options) => {
      const { thread, leave } = joinShared()
      const job = thread.start('follow', { path }, options)
      // Of a job that fails, whoever waits for its result is told.
      void job.result.then(leave, leave)
      return job
    },
    close: async () => {
      isClosed = true
      await Promise.all([...idle, ...(shared === null ? [] : [shared.thread])].map((thread) => thread.end()))
    },
  }
}

interface Thread {
  isAlive(): boolean
  start<K extends JobKind>(kind: K, job: Jobs[K]['job'], options: JobOptions): RunningJob<Jobs[K]['result']>
  end(): Promise<unknown>
}

interface PendingJob {
  readonly options: JobOptions
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
  /** What ended it, if it was not the thread. */
  cause?: unknown
}

function startThread(): Thread {
  const worker = new Worker(new URL('./thread/storage-thread.ts', import.meta.url), { resourceLimits, name: 'muster-storage' })
  // A thread without work keeps no process alive.
  worker.unref()
  const waiting = new Map<number, PendingJob>()
  let lastId = 0
  let isAlive = true
  const send = (message: ToThread): void => worker.postMessage(message, [])
  const settle = (id: number): PendingJob | undefined => {
    const job = waiting.get(id)
    waiting.delete(id)
    if (waiting.size === 0) worker.unref()
    return job
  }
  const die = (error: unknown): void => {
    isAlive = false
    for (const id of [...waiting.keys()]) settle(id)?.reject(error)
  }
  worker.on('error', die)
  worker.on('exit', () => die(new Error('a thread of the store has ended')))
  worker.on('message', (message: FromThread) => {
    const { id } = message
    switch (message.tell) {
      case 'progress':
        waiting.get(id)?.options.onSign?.()
        return waiting.get(id)?.options.onProgress?.(message.current, message.total)
      case 'sign':
        return waiting.get(id)?.options.onSign?.()
      case 'step':
        return void reportStep(waiting.get(id), message.name).then((isTaken) => send({ id, tell: isTaken ? 'stepped' : 'cancel' }))
      case 'done':
        return settle(id)?.resolve(message.result)
      case 'failed':
        return rejectJob(settle(id), message)
    }
  })
  return {
    isAlive: () => isAlive,
    start: (kind, job, options) => {
      const id = ++lastId
      worker.ref()
      const result = new Promise<unknown>((resolve, reject) => waiting.set(id, { options, resolve, reject }))
      send({ id, kind, job })
      const cancel = (): void => send({ id, tell: 'cancel' })
      if (options.signal.aborted) cancel()
      else options.signal.addEventListener('abort', cancel)
      const ended = result
        .finally(() => options.signal.removeEventListener('abort', cancel))
        .catch((error: unknown) => {
          options.signal.throwIfAborted()
          throw error
        })
      return {
        result: ended as Promise<never>,
        grow: (bytes) => send({ id, tell: 'grow', bytes }),
        finish: () => send({ id, tell: 'finish' }),
      }
    },
    end: () => worker.terminate(),
  }
}

async function reportStep(job: PendingJob | undefined, name: string): Promise<boolean> {
  try {
    await job?.options.step?.(name)
    return true
  } catch (error) {
    if (job !== undefined) job.cause = error
    return false
  }
}

function rejectJob(job: PendingJob | undefined, { failure, error }: Extract<FromThread, { tell: 'failed' }>): void {
  job?.reject(job.cause ?? (failure === null ? error : new FleetError(failure, { cause: error })))
}
