// The thread that parse-thread.ts starts.
import { parentPort, workerData } from 'node:worker_threads'
import { failureOf } from '@muster/protocol'
import { parseGallery, parseModelGallery } from './parse-gallery.ts'
import type { ParseOutcome, ThreadJob } from './parse-thread.ts'

// Passed by parse-thread.ts.
const { text, options, kind } = workerData as ThreadJob

function parse(): ParseOutcome {
  try {
    return kind === 'model' ? parseModelGallery(text, options) : parseGallery(text, options)
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

parentPort?.postMessage(parse(), [])
