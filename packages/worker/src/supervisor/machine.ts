// One replica, from being accepted to being gone: a union and the one function that moves it. Pure.
//
//   accepted ──stage──▶ staging ──spawned──▶ starting ──ready──▶ ready ──drain──▶ draining
//      ▲                   │  └─staged (nothing is to be started)▶ gone            │
//      └───── again ───────┴──────────────── starting            stop, drained ────┴──▶ stopping ──exited──▶ gone
//
// `spawned`, `ready` and `exited` are owned by whoever watches the process; `drain` and `stop` by commands; `again` by a
// worker that stops, or that starts and finds a load whose process is no more.
import { Digest, Failure, unreachable } from '@muster/protocol'
import { z } from 'zod'
import { exitFailure } from './describe-exit.ts'

/** A null code and signal: nobody of this worker saw it end. */
export const Exit = z.object({
  code: z.number().int().nullable(),
  signal: z.string().max(32).nullable(),
  lines: z.array(z.string().max(4096)).max(100),
})
export type Exit = z.infer<typeof Exit>

/** What there is of a replica once it has a process. */
export const Run = z.object({
  process: z.object({ pid: z.number().int().positive(), started: z.string().max(64), boot: z.string().max(64) }),
  address: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('tcp'), host: z.literal('127.0.0.1'), port: z.number().int().min(1).max(65_535) }),
    z.object({ kind: z.literal('unix'), path: z.string().max(108) }),
  ]),
  /** The tree that it runs from, and the model's files. */
  digest: Digest,
  modelDirectory: z.string(),
})
export type Run = z.infer<typeof Run>

export const End = z.discriminatedUnion('how', [
  /** The files are here, and nothing was to be started. */
  z.object({ how: z.literal('staged') }),
  /** It was ready before. Expected: it was told to end. */
  z.object({ how: z.literal('exited'), exit: Exit, isExpected: z.boolean() }),
  z.object({ how: z.literal('failed'), failure: Failure }),
  z.object({ how: z.literal('cancelled'), failure: Failure }),
])
export type End = z.infer<typeof End>

export const Stage = z.discriminatedUnion('state', [
  z.object({ state: z.literal('accepted') }),
  z.object({ state: z.literal('staging') }),
  z.object({ state: z.literal('starting'), run: Run }),
  z.object({ state: z.literal('ready'), run: Run }),
  z.object({ state: z.literal('draining'), run: Run }),
  /** `end`: what is said once its process is gone; null when it was ready and is told to end. */
  z.object({ state: z.literal('stopping'), run: Run, end: End.nullable() }),
  z.object({ state: z.literal('gone'), end: End }),
])
export type Stage = z.infer<typeof Stage>

export type ReplicaEvent =
  | Readonly<{ type: 'stage' }>
  | Readonly<{ type: 'staged' }>
  | Readonly<{ type: 'spawned'; run: Run }>
  | Readonly<{ type: 'ready' }>
  | Readonly<{ type: 'drain' }>
  | Readonly<{ type: 'stop'; because: Failure }>
  /** Every process of it is gone. */
  | Readonly<{ type: 'exited'; exit: Exit }>
  /** The load is to be carried out from its beginning; it has no process. */
  | Readonly<{ type: 'again' }>

/** Null: not legal here. */
export function step(stage: Stage, event: ReplicaEvent): Stage | null {
  switch (event.type) {
    case 'stage':
      return stage.state === 'accepted' ? { state: 'staging' } : null
    case 'staged':
      return stage.state === 'staging' ? { state: 'gone', end: { how: 'staged' } } : null
    case 'spawned':
      return stage.state === 'staging' ? { state: 'starting', run: event.run } : null
    case 'ready':
      return stage.state === 'starting' ? { ...stage, state: 'ready' } : null
    case 'drain':
      return stage.state === 'ready' ? { ...stage, state: 'draining' } : null
    case 'stop':
      return stopped(stage, event.because)
    case 'exited':
      return exited(stage, event.exit)
    case 'again':
      return stage.state === 'staging' || stage.state === 'starting' ? { state: 'accepted' } : null
    default:
      return unreachable(event)
  }
}

function stopped(stage: Stage, because: Failure): Stage | null {
  const end: End = { how: because.code === 'cancelled' ? 'cancelled' : 'failed', failure: because }
  switch (stage.state) {
    case 'accepted':
    case 'staging':
      return { state: 'gone', end }
    case 'starting':
      return { state: 'stopping', run: stage.run, end }
    case 'ready':
    case 'draining':
      return { state: 'stopping', run: stage.run, end: null }
    case 'stopping':
    case 'gone':
      return null
    default:
      return unreachable(stage)
  }
}

function exited(stage: Stage, exit: Exit): Stage | null {
  switch (stage.state) {
    case 'starting':
      return { state: 'gone', end: { how: 'failed', failure: exitFailure(exit) } }
    case 'ready':
    case 'draining':
      return { state: 'gone', end: { how: 'exited', exit, isExpected: stage.state === 'draining' } }
    case 'stopping':
      return { state: 'gone', end: stage.end ?? { how: 'exited', exit, isExpected: true } }
    case 'accepted':
    case 'staging':
    case 'gone':
      return null
    default:
      return unreachable(stage)
  }
}

export const runOf = (stage: Stage): Run | null => ('run' in stage ? stage.run : null)
