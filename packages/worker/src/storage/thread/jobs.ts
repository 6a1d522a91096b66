// What the threads of the store do, and the messages by which they are asked for it.
import type { Failure, UnpackLimits } from '@muster/protocol'
import type { TreeLayer, TreeSummary } from '../unpack/tree-manifest.ts'

export interface Jobs {
  /** The hash of a file that is still growing: `grow` says how far it may read, `finish` that this was all. */
  follow: { readonly job: { readonly path: string }; readonly result: string }
  unpack: { readonly job: UnpackJob; readonly result: TreeSummary }
  copy: { readonly job: CopyJob; readonly result: TreeSummary }
  verify: { readonly job: { readonly directory: string }; readonly result: readonly string[] }
  mend: { readonly job: { readonly fresh: string; readonly directory: string }; readonly result: readonly string[] }
}
export type JobKind = keyof Jobs

export interface BuildJobOptions {
  /** A private directory that exists; the tree becomes `root` in it and its manifest `manifest`. */
  readonly staging: string
  readonly limits: UnpackLimits
  readonly keepFreeBytes: number
}

export interface UnpackJob extends BuildJobOptions {
  readonly layers: readonly (TreeLayer & { readonly path: string; readonly size: number })[]
}

export interface CopyJob extends BuildJobOptions {
  readonly from: string
}

export type ToThread =
  | { readonly id: number; readonly kind: JobKind; readonly job: unknown }
  | { readonly id: number; readonly tell: 'cancel' | 'finish' | 'stepped' }
  | { readonly id: number; readonly tell: 'grow'; readonly bytes: number }

export type FromThread =
  | { readonly id: number; readonly tell: 'progress'; readonly current: number; readonly total: number }
  | { readonly id: number; readonly tell: 'sign' }
  | { readonly id: number; readonly tell: 'step'; readonly name: string }
  | { readonly id: number; readonly tell: 'done'; readonly result: unknown }
  | { readonly id: number; readonly tell: 'failed'; readonly failure: Failure | null; readonly error: Error }

/** What a job sees of its caller. */
export interface JobContext {
  readonly signal: AbortSignal
  progress(current: number, total: number): void
  /** That it goes on; as often as it likes. */
  sign(): void
  step(name: string): Promise<void>
  /** Resolves with the number of bytes there may be read, more than `than`; `end` once there will be no more. */
  waitForBytes(than: number): Promise<{ readonly bytes: number; readonly end: boolean }>
}
