// The files of models on this machine: content by digest, each once, and a folder per model and revision that names them.
import type { Readable } from 'node:stream'
import type { Digest, LoadModel, ModelName, StoredFile } from '@muster/protocol'
import type { InstallContext } from '../operations/installer.ts'

export type StageContext = Pick<InstallContext, 'signal' | 'onProgress' | 'onSign'>

/** Files in their place; they stay until it is disposed of, and as long as the model is not removed. */
export interface StagedModel extends Disposable {
  /** Holds every file under the name that its configuration gives it; nothing in it leads elsewhere. */
  readonly directory: string
}

export interface ModelFiles {
  /** Fetches what is missing, verifies, names. The same model and revision at once is done once. Throws FleetError. */
  stage(order: Pick<LoadModel, 'model' | 'revision' | 'files'>, context: StageContext): Promise<StagedModel>
  /** Its folders, of every revision, and content that nothing names any more. What is not there is done. */
  remove(model: ModelName): Promise<void>
  /** Complete and verified content, for the inventory. */
  contents(): Promise<readonly StoredFile[]>
  /** For other workers; `end` is the last byte of the range. Null when it is not here. */
  open(digest: Digest, range: { start: number; end: number } | null): Promise<{ size: number; stream: Readable } | null>
  size(digest: Digest): Promise<number | null>
  /** What is uploaded. Kept once it resolves: as long as its model is not removed; for a day when it is for none. */
  receive(bytes: Readable, about: { model?: ModelName; digest?: Digest; size?: number; signal: AbortSignal }): Promise<StoredFile>
  close(): Promise<void>
}
