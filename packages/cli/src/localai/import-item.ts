// The items of an import: what the steps need, and what each of them reports.
import { type Clock, errorMessage } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { ApiClient } from '../client/api-client.ts'
import type { Screen } from '../output/terminal.ts'
import type { Loss } from './site.ts'

export interface ImportDeps {
  readonly api: ApiClient
  readonly clock: Clock
  readonly screen: Screen | null
  /** The step in progress, for people; null clears it. */
  readonly showStatus: (text: string | null) => void
  readonly signal: AbortSignal
  readonly isDryRun: boolean
  readonly mayReplace: boolean
  readonly files: 'upload' | 'reference'
  readonly backends: 'install' | 'on-demand'
  /** The scope of imported keys; null: none are imported. */
  readonly keyScope: Extract<Scope, 'inference' | 'admin'> | null
}

export interface Item {
  readonly kind: 'gallery' | 'backend' | 'model' | 'scheduling' | 'node' | 'key'
  readonly name: string
  /** `kept`: it exists in another form, and stays. `refused`: it cannot be imported. `failed`: try again. */
  readonly outcome: 'created' | 'changed' | 'unchanged' | 'kept' | 'refused' | 'failed'
  readonly message: string
}

export interface ImportReport {
  readonly source: string
  readonly dry_run: boolean
  readonly items: readonly Item[]
  readonly losses: readonly Loss[]
}

export type Result = Pick<Item, 'outcome' | 'message'>

export interface PartResult {
  readonly items: readonly Item[]
  readonly losses: readonly Loss[]
}

/** One failure concerns one item. */
export async function attempt(step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    return { outcome: 'failed', message: errorMessage(error) }
  }
}
