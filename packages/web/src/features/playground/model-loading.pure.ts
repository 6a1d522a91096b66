// Pure: how far a model is with coming up, out of all that is known of it: its state by events, what its waiting requests
// were told, and the operation that installs its backend or loads it.
import type { Loading, ModelView, OperationView } from '@muster/protocol'

export const phases = ['pending', 'installing', 'staging', 'loading'] as const
export type LoadPhase = (typeof phases)[number]

export const phaseWords: Readonly<Record<LoadPhase, string>> = {
  pending: 'finding a node',
  installing: 'installing the backend',
  staging: 'fetching the files',
  loading: 'loading into memory',
}

export interface ColdWorld {
  readonly model: ModelView | undefined
  /** What was said of it, the latest first. */
  readonly told: readonly (Loading | null | undefined)[]
  /** Those that run. */
  readonly operations: readonly OperationView[]
}
export interface ColdView {
  readonly phase: LoadPhase
  readonly node: string | null
  /** Null: nothing can be measured in this phase. */
  readonly progress: { readonly percent: number; readonly current: number; readonly total: number } | null
  readonly etaSeconds: number | null
}

const asPhase = (state: string | undefined): LoadPhase | undefined => phases.find((phase) => phase === state)

export function coldView({ model, told, operations }: ColdWorld): ColdView {
  const known = told.filter((each) => each !== null && each !== undefined)
  const phase = asPhase(model?.state) ?? known.map(({ state }) => asPhase(state)).find((found) => found !== undefined) ?? 'pending'
  const ofPhase = known.filter(({ state }) => state === phase)
  const measured = [
    ...ofPhase.map(({ progress, current_bytes: current, total_bytes: total }) => ({ percent: progress, current, total })),
    ...operations
      .filter((operation) => isAbout(operation, { phase, model }))
      .map(({ progress, current_bytes: current, total_bytes: total }) => ({ percent: progress, current, total })),
  ].filter(({ total }) => total > 0)
  return {
    phase,
    node: known.find(({ node }) => node !== null)?.node ?? null,
    progress: measured.toSorted((a, b) => b.percent - a.percent)[0] ?? null,
    etaSeconds: ofPhase.find(({ eta_seconds: eta }) => eta !== undefined)?.eta_seconds ?? null,
  }
}

function isAbout(operation: OperationView, { phase, model }: { phase: LoadPhase; model: ModelView | undefined }): boolean {
  if (model === undefined) return false
  if (phase === 'installing') return operation.kind === 'backend.install' && operation.backend === model.backend
  return phase === 'staging' && operation.kind === 'model.load' && operation.model === model.name
}
