// The jobs of the storage threads, and the messages between a thread and the main thread. Types only.
import type { Failure, UnpackLimits } from '@muster/protocol'
import type { TreeLayer, TreeSummary } from '../unpack/tree-manifest.ts'

export interface Jobs {
  /** Hashes a file that may still grow: `grow` states how many bytes it may read, `finish` that there will be no more. */
  hash: { readonly job: { readonly path: string }; readonly result: string }
  unpack: { readonly job: UnpackJob; readonly result: TreeSummary }
  archive: { readonly job: ArchiveJob; readonly result: UnpackedArchive }
  copy: { readonly job: CopyJob; readonly result: TreeSummary }
  verify: { readonly job: VerifyJob; readonly result: readonly string[] }
  repair: { readonly job: { readonly fresh: string; readonly directory: string }; readonly result: readonly string[] }
}
export type JobKind = keyof Jobs

export interface BuildJobOptions {
  /** An existing private directory, which receives the tree as `root` and its manifest as `manifest`. */
  readonly staging: string
  readonly limits: UnpackLimits
  readonly keepFreeBytes: number
}

export interface UnpackJob extends BuildJobOptions {
  readonly layers: readonly (TreeLayer & { readonly path: string; readonly size: number })[]
}

/** An archive of files of a model: any of the formats of `detectArchive`. */
export interface ArchiveJob extends BuildJobOptions {
  readonly path: string
  readonly size: number
}

/** The regular files and links that came out, by path. */
export type UnpackedArchive = readonly Readonly<{ path: string; size: number }>[]

export interface VerifyJob {
  readonly directory: string
  /** `entries`: kind, mode and size of every entry. `content`: also the hash of every file. */
  readonly depth: 'entries' | 'content'
}

export interface CopyJob extends BuildJobOptions {
  readonly from: string
}

export type ToThread =
  | { readonly id: number; readonly kind: JobKind; readonly job: unknown }
  | { readonly id: number; readonly type: 'cancel' | 'finish' | 'stepped' }
  | { readonly id: number; readonly type: 'grow'; readonly bytes: number }

export type FromThread =
  | { readonly id: number; readonly type: 'progress'; readonly current: number; readonly total: number }
  | { readonly id: number; readonly type: 'sign' }
  | { readonly id: number; readonly type: 'step'; readonly name: string }
  | { readonly id: number; readonly type: 'done'; readonly result: unknown }
  | { readonly id: number; readonly type: 'failed'; readonly failure: Failure | null; readonly error: Error }

/** The caller, as a job sees it. */
export interface JobContext {
  readonly signal: AbortSignal
  progress(current: number, total: number): void
  /** A sign of life; may be called at any rate. */
  sign(): void
  step(name: string): Promise<void>
  /** Resolves once more than `than` bytes may be read; `end` is true when there will be no more. */
  waitForBytes(than: number): Promise<{ readonly bytes: number; readonly end: boolean }>
}
