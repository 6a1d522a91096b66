// What runs in the thread that parse-thread.ts starts.
import { parentPort, workerData } from 'node:worker_threads'
import { failureOf } from '@muster/protocol'
import { parseGallery } from './parse-gallery.ts'
import type { ParseJob, ParseOutcome } from './parse-thread.ts'

// Given by parse-thread.ts and nobody else.
const { text, options } = workerData as ParseJob

function parse(): ParseOutcome {
  try {
    return { entries: parseGallery(text, options) }
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

parentPort?.postMessage(parse(), [])
