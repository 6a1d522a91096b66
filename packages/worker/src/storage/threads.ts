// The threads that hash and unpack, so that the main thread never waits for either. All downloads share one thread; every
// other job gets its own, as many at a time as there are processors. Idle threads are reused, because each start costs
// processor time and memory.
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Step } from '@muster/host'
import { Digest, FleetError } from '@muster/protocol'
import { createSemaphore } from './locks.ts'
import { withSigns } from './signs.ts'
import type { FromThread, JobKind, Jobs, ToThread } from './thread/jobs.ts'

/** Enough for the names of 200,000 entries; beyond it the job fails instead of the process. New objects are mostly chunks
 *  in transit: a small young generation lowers the peak of an install a little (bench/README.md). */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 8 }

export interface JobOptions {
  readonly signal: AbortSignal
  readonly onProgress?: (current: number, total: number) => void
  /** A sign of life while the job runs or waits for its turn. */
  readonly onSign?: () => void
  readonly step?: Step
}

export interface RunningJob<Result> {
  readonly result: Promise<Result>
  grow(bytes: number): void
  finish(): void
}

export interface Threads {
  /** Waits for its turn. Settles, also when cancelled, only after the job has stopped touching the disk. */
  run<K extends Exclude<JobKind, 'hash'>>(kind: K, job: Jobs[K]['job'], options: JobOptions): Promise<Jobs[K]['result']>
  hash(path: string, options: Pick<JobOptions, 'signal' | 'onSign'>): RunningJob<string>
  /** Hashes the first `bytes` of a file. */
  digestOf(path: string, bytes: number, options: Pick<JobOptions, 'signal' | 'onSign'>): Promise<Digest>
  close(): Promise<void>
}

export function createThreads(): Threads {
  const semaphore = createSemaphore(availableParallelism())
  const idle: Thread[] = []
  let shared: { readonly thread: Thread; jobs: number } | null = null
  let isClosed = false
  const takeThread = (): Thread => {
    if (isClosed) throw new Error('the store is closed')
    return idle.pop() ?? startThread()
  }
  const returnThread = (thread: Thread): void => {
    if (thread.isAlive()) idle.push(thread)
  }
  const joinShared = (): { readonly thread: Thread; leave(): void } => {
    const joined = shared?.thread.isAlive() ? shared : { thread: takeThread(), jobs: 0 }
    shared = joined
    joined.jobs++
    const leave = (): void => {
      if (--joined.jobs > 0) return
      if (shared === joined) shared = null
      returnThread(joined.thread)
    }
    return { thread: joined.thread, leave }
  }
  const hash: Threads['hash'] = (path, options) => {
    const { thread, leave } = joinShared()
    const job = thread.start('hash', { path }, options)
    // The caller handles a failure through `result`.
    void job.result.then(leave, leave)
    return job
  }
  return {
    run: (kind, job, options) =>
      withSigns(options.onSign, (stop) =>
        semaphore.run(options.signal, async () => {
          stop()
          const thread = takeThread()
          try {
            return await thread.start(kind, job, options).result
          } finally {
            returnThread(thread)
          }
        }),
      ),
    hash,
    digestOf: async (path, bytes, options) => {
      const whole = hash(path, options)
      whole.grow(bytes)
      whole.finish()
      return Digest.parse(`sha256:${await whole.result}`)
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
  /** The error of a step on the main thread, which ended the job. */
  cause?: unknown
}

function startThread(): Thread {
  const worker = new Worker(new URL('./thread/storage-thread.ts', import.meta.url), { resourceLimits, name: 'muster-storage' })
  // A thread without work keeps no process alive.
  worker.unref()
  const pending = new Map<number, PendingJob>()
  let lastId = 0
  let isAlive = true
  const send = (message: ToThread): void => worker.postMessage(message, [])
  const settle = (id: number): PendingJob | undefined => {
    const job = pending.get(id)
    pending.delete(id)
    if (pending.size === 0) worker.unref()
    return job
  }
  const failAll = (error: unknown): void => {
    isAlive = false
    for (const id of [...pending.keys()]) settle(id)?.reject(error)
  }
  worker.on('error', failAll)
  worker.on('exit', () => failAll(new Error('a storage thread exited')))
  worker.on('message', (message: FromThread) => {
    const { id } = message
    switch (message.type) {
      case 'progress':
        pending.get(id)?.options.onSign?.()
        return pending.get(id)?.options.onProgress?.(message.current, message.total)
      case 'sign':
        return pending.get(id)?.options.onSign?.()
      case 'step':
        return void reportStep(pending.get(id), message.name).then((isDone) => send({ id, type: isDone ? 'stepped' : 'cancel' }))
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
      const result = new Promise<unknown>((resolve, reject) => pending.set(id, { options, resolve, reject }))
      send({ id, kind, job })
      const cancel = (): void => send({ id, type: 'cancel' })
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
        grow: (bytes) => send({ id, type: 'grow', bytes }),
        finish: () => send({ id, type: 'finish' }),
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

function rejectJob(job: PendingJob | undefined, { failure, error }: Extract<FromThread, { type: 'failed' }>): void {
  job?.reject(job.cause ?? (failure === null ? error : new FleetError(failure, { cause: error })))
}
