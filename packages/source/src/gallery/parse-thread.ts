// Parses a gallery outside the main thread: the largest allowed one takes seconds, which would block the process. A small
// one without aliases takes milliseconds, less than the start of a thread (about 0.4 s of CPU and 40 MB).
import { Worker } from 'node:worker_threads'
import { Failure, FleetError, LeftOutEntry, ModelGalleryEntry } from '@muster/protocol'
import { z } from 'zod'
import { GalleryEntry } from './entry.ts'
import { parseGallery, parseModelGallery, type ParsedGallery, type ParseOptions } from './parse-gallery.ts'

export interface ParseJob {
  readonly text: string
  readonly options: ParseOptions
}
export type ThreadJob = ParseJob & { readonly kind: 'backend' | 'model' }
export type ParseOutcome = ParsedGallery<object> | { readonly failure: Failure }

const smallChars = 32_768
/** With aliases a small text can stand for a large one. */
const isQuick = (text: string): boolean => text.length <= smallChars && !/[&*][^\s,[\]{}]/.test(text)

/** YAML of 8 MB becomes about 500 MB of objects on the way. */
const resourceLimits = { maxOldGenerationSizeMb: 1024 }

export const parseGalleryBeside = parserBeside('backend', GalleryEntry, parseGallery)
export const parseModelGalleryBeside = parserBeside('model', ModelGalleryEntry, parseModelGallery)

function parserBeside<T>(kind: ThreadJob['kind'], entry: z.ZodType<T>, parse: (text: string, options: ParseOptions) => ParsedGallery<T>) {
  const Parsed = z.object({ entries: z.array(entry), leftOut: z.array(LeftOutEntry), leftOutCount: z.number() })
  const Outcome = z.union([Parsed, z.object({ failure: Failure })])
  return async (job: ParseJob, signal: AbortSignal): Promise<ParsedGallery<T>> => {
    signal.throwIfAborted()
    if (isQuick(job.text)) return parse(job.text, job.options)
    const outcome = Outcome.parse(await beside({ ...job, kind }, signal))
    if ('failure' in outcome) throw new FleetError(outcome.failure)
    return outcome
  }
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
