// Pure: which model is asked, and how it is said to stand.
import type { ModelState, ModelView } from '@muster/protocol'
import { plural } from '../../format/amounts.ts'

export const stateWords: Readonly<Record<ModelState, string>> = {
  unloaded: 'not loaded',
  pending: 'finding a node',
  installing: 'installing its backend',
  staging: 'fetching its files',
  loading: 'loading into memory',
  ready: 'ready',
  failed: 'failed to load',
}

/** The one that was named; else one that is up, else the first. */
export function chooseModel(models: readonly ModelView[], named: string | undefined): ModelView | null {
  if (named !== undefined) return models.find(({ name }) => name === named) ?? null
  return models.find(({ state }) => state === 'ready') ?? models[0] ?? null
}

/** One true sentence. */
export function modelSentence(model: ModelView): string {
  switch (model.state) {
    case 'ready':
      return `${model.name} is ready: ${model.replicas_ready} of ${plural(Math.max(model.replicas_ready, model.replicas_desired), 'replica')}.`
    case 'unloaded':
      return `${model.name} is not loaded. The first question loads it.`
    case 'failed':
      return `${model.name} failed to load: ${model.failure?.message ?? 'no reason is known'}`
    default:
      return `${model.name} is on its way: ${stateWords[model.state]}.`
  }
}
