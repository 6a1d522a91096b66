// Parses a gallery outside the main thread: the largest allowed one takes seconds, which would block the process. A small
// one without aliases takes milliseconds, less than the start of a thread (about 0.4 s of CPU and 40 MB).
import { Worker } from 'node:worker_threads'
import { Failure, FleetError, ModelGalleryEntry } from '@muster/protocol'
import { z } from 'zod'
import { GalleryEntry } from './entry.ts'
import { parseGallery, type ParseOptions } from './parse-gallery.ts'
import { parseModelGallery } from './parse-model-gallery.ts'

export interface ParseJob {
  readonly text: string
  readonly options: ParseOptions
}
export type ThreadJob = ParseJob & { readonly kind: 'backend' | 'model' }
export type ParseOutcome = { readonly entries: readonly object[] } | { readonly failure: Failure }

const outcomeOf = <T extends z.ZodType>(entry: T) => z.union([z.object({ entries: z.array(entry) }), z.object({ failure: Failure })])
const Backends = outcomeOf(GalleryEntry)
const Models = outcomeOf(ModelGalleryEntry)

const smallChars = 32_768
/** With aliases a small text can stand for a large one. */
const isQuick = (text: string): boolean => text.length <= smallChars && !/[&*][^\s,[\]{}]/.test(text)

/** YAML of 8 MB becomes about 500 MB of objects on the way. */
const resourceLimits = { maxOldGenerationSizeMb: 1024 }

export async function parseGalleryBeside(job: ParseJob, signal: AbortSignal): Promise<GalleryEntry[]> {
  signal.throwIfAborted()
  if (isQuick(job.text)) return parseGallery(job.text, job.options)
  return entriesOf(Backends.parse(await beside({ ...job, kind: 'backend' }, signal)))
}

export async function parseModelGalleryBeside(job: ParseJob, signal: AbortSignal): Promise<ModelGalleryEntry[]> {
  signal.throwIfAborted()
  if (isQuick(job.text)) return parseModelGallery(job.text, job.options)
  return entriesOf(Models.parse(await beside({ ...job, kind: 'model' }, signal)))
}

function entriesOf<T>(outcome: { entries: T[] } | { failure: Failure }): T[] {
  if ('failure' in outcome) throw new FleetError(outcome.failure)
  return outcome.entries
}

async function beside(job: ThreadJob, signal: AbortSignal): Promise<unknown> {
  const worker = new Worker(new URL('./parse-thread-main.ts', import.meta.url), { workerData: job, resourceLimits })
  const stop = (): void => void worker.terminate()
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await answerOf(worker)
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function answerOf(worker: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () =>
      reject(new FleetError({ code: 'invalid', retry: 'never', message: 'cannot parse the gallery: it takes too much memory' })),
    )
  })
}
