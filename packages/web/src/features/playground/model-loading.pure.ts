// The progress of a model that is loading, from all sources: its state by events, the reports to waiting requests, and the
// operation that installs its backend or loads it.
import type { Loading, ModelView, OperationView } from '@muster/protocol'

export const phases = ['pending', 'installing', 'staging', 'loading'] as const
export type LoadPhase = (typeof phases)[number]

export const phaseWords: Readonly<Record<LoadPhase, string>> = {
  pending: 'finding a node',
  installing: 'installing the backend',
  staging: 'downloading files',
  loading: 'loading into memory',
}

export interface LoadingSources {
  readonly model: ModelView | undefined
  /** Reports of the server, the latest first. */
  readonly reports: readonly (Loading | null | undefined)[]
  /** Active operations. */
  readonly operations: readonly OperationView[]
}
export interface LoadingView {
  readonly phase: LoadPhase
  readonly node: string | null
  /** Null when this phase has no measurable progress. */
  readonly progress: { readonly percent: number; readonly current: number; readonly total: number } | null
  readonly etaSeconds: number | null
}

const asPhase = (state: string | undefined): LoadPhase | undefined => phases.find((phase) => phase === state)

export function loadingView({ model, reports, operations }: LoadingSources): LoadingView {
  const known = reports.filter((each) => each !== null && each !== undefined)
  const phase = asPhase(model?.state) ?? known.map(({ state }) => asPhase(state)).find((found) => found !== undefined) ?? 'pending'
  const ofPhase = known.filter(({ state }) => state === phase)
  const measured = [...ofPhase, ...operations.filter((operation) => isAbout(operation, { phase, model }))]
    .map(({ progress, current_bytes: current, total_bytes: total }) => ({ percent: progress, current, total }))
    .filter(({ total }) => total > 0)
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
