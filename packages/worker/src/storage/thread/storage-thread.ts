// Entry point of a storage thread: runs jobs, reports progress, cancels on request. Every start pays for its imports, so
// add none.
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { parentPort } from 'node:worker_threads'
import { FleetError } from '@muster/protocol'
import { storageFailureOf } from '../disk-space.ts'
import { copyDirectory, unpackArchive, unpackLayers } from './build-tree.ts'
import type { FromThread, JobContext, JobKind, Jobs, ToThread } from './jobs.ts'
import { repairTree, verifyTree } from './verify-tree.ts'

const progressEveryMs = 100
const signEveryMs = 1_000
const hashBufferBytes = 1024 * 1024

type Run = { readonly [K in JobKind]: (job: Jobs[K]['job'], context: JobContext) => Promise<Jobs[K]['result']> }

const run: Run = {
  hash: hashFile,
  unpack: unpackLayers,
  archive: unpackArchive,
  copy: copyDirectory,
  verify: verifyTree,
  repair: repairTree,
}

interface RunningState {
  readonly abort: AbortController
  grown: { bytes: number; end: boolean }
  onGrown: () => void
  onStepped: () => void
}

const running = new Map<number, RunningState>()
const port = parentPort
if (port === null) throw new Error('storage-thread.ts must be started as a worker thread')
const send = (message: FromThread): void => port.postMessage(message, [])

port.on('message', (message: ToThread) => {
  if ('kind' in message) return void start(message)
  const job = running.get(message.id)
  if (job === undefined) return
  switch (message.type) {
    case 'cancel':
      job.abort.abort()
      job.onGrown()
      return job.onStepped()
    case 'stepped':
      return job.onStepped()
    case 'grow':
      job.grown.bytes = message.bytes
      return job.onGrown()
    case 'finish':
      job.grown.end = true
      return job.onGrown()
  }
})

async function start({ id, kind, job }: Extract<ToThread, { kind: JobKind }>): Promise<void> {
  const state: RunningState = { abort: new AbortController(), grown: { bytes: 0, end: false }, onGrown: () => {}, onStepped: () => {} }
  running.set(id, state)
  try {
    // threads.ts, at the other end of this port, checks by its types that the job fits its kind.
    const result = await run[kind](job as never, contextOf(id, state))
    send({ id, type: 'done', result })
  } catch (thrown) {
    const error = storageFailureOf(thrown)
    const plain = error instanceof Error ? error : new Error(String(error))
    send({
      id,
      type: 'failed',
      failure: error instanceof FleetError ? error.failure : null,
      error: new Error(plain.message, { cause: plain.stack }),
    })
  } finally {
    running.delete(id)
  }
}

function contextOf(id: number, state: RunningState): JobContext {
  const { signal } = state.abort
  let lastProgress = -Infinity
  let lastSign = performance.now()
  return {
    signal,
    progress: (current, total) => {
      const now = performance.now()
      if (now - lastProgress < progressEveryMs && current < total) return
      lastProgress = now
      send({ id, type: 'progress', current, total })
    },
    sign: () => {
      const now = performance.now()
      if (now - lastSign < signEveryMs) return
      lastSign = now
      send({ id, type: 'sign' })
    },
    step: async (name) => {
      const stepped = new Promise<void>((resolve) => (state.onStepped = resolve))
      send({ id, type: 'step', name })
      await stepped
      signal.throwIfAborted()
    },
    waitForBytes: async (than) => {
      while (state.grown.bytes <= than && !state.grown.end) {
        signal.throwIfAborted()
        await new Promise<void>((resolve) => (state.onGrown = resolve))
      }
      signal.throwIfAborted()
      return { ...state.grown }
    },
  }
}

/** Hashes a file while it grows, always from its first byte: bytes of an earlier process count only by their hash. */
async function hashFile({ path }: { readonly path: string }, { waitForBytes, signal, sign }: JobContext): Promise<string> {
  await using file = await open(path, 'r')
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(hashBufferBytes)
  let at = 0
  for (;;) {
    const { bytes, end } = await waitForBytes(at)
    while (at < bytes) {
      signal.throwIfAborted()
      const { bytesRead } = await file.read(buffer, 0, Math.min(hashBufferBytes, bytes - at), at)
      if (bytesRead === 0) throw new Error(`${path} is shorter than what was written to it`)
      hash.update(buffer.subarray(0, bytesRead))
      at += bytesRead
      sign()
    }
    if (end) return hash.digest('hex')
  }
}
