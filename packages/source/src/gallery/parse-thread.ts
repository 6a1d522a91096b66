// Parses a gallery beside the main thread: the largest that is read takes seconds, in which nothing else would happen.
// A small one without aliases takes milliseconds, less than starting a thread does (about 0.4 s of CPU and 40 MB).
import { Worker } from 'node:worker_threads'
import { Failure, FleetError } from '@muster/protocol'
import { z } from 'zod'
import { GalleryEntry } from './entry.ts'
import { parseGallery, type ParseOptions } from './parse-gallery.ts'

export interface ParseJob {
  readonly text: string
  readonly options: ParseOptions
}
export type ParseOutcome = { readonly entries: GalleryEntry[] } | { readonly failure: Failure }

const Outcome = z.union([z.object({ entries: z.array(GalleryEntry) }), z.object({ failure: Failure })])

const smallChars = 32_768
/** With aliases a small text can stand for a large one. */
const isQuick = (text: string): boolean => text.length <= smallChars && !/[&*][^\s,[\]{}]/.test(text)

/** YAML of 8 MB becomes about 500 MB of objects on the way. */
const resourceLimits = { maxOldGenerationSizeMb: 1024 }

export async function parseGalleryBeside(job: ParseJob, signal: AbortSignal): Promise<GalleryEntry[]> {
  signal.throwIfAborted()
  if (isQuick(job.text)) return parseGallery(job.text, job.options)
  const worker = new Worker(new URL('./parse-thread-main.ts', import.meta.url), { workerData: job, resourceLimits })
  const stop = (): void => void worker.terminate()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const outcome = Outcome.parse(await answerOf(worker))
    if ('failure' in outcome) throw new FleetError(outcome.failure)
    return outcome.entries
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
      reject(new FleetError({ code: 'invalid', retry: 'never', message: 'the gallery could not be parsed: it takes too much memory' })),
    )
  })
}
