// Submits operations about models. Each submission is one transaction; the loops do the rest.
import type { ModelConfig, ModelName } from '@muster/protocol'
import type { ModelSubmission, ModelSubmissionStore, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelStore } from '../store/models.ts'
import type { NodeStore } from '../store/nodes.ts'
import { revisionOf } from './config.ts'
import { replicasToLoad } from '../loads/replica-set.pure.ts'
import { findModel, type ModelCatalogue } from './model-catalogue.ts'
import { createMatchCount } from './view.ts'

export interface ModelSubmitDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly nodes: Pick<NodeStore, 'list'>
  readonly catalogue: ModelCatalogue
  readonly store: ModelSubmissionStore
  /** The model has changed. */
  readonly wake: (model: ModelName) => Promise<void>
}

type Submit<Outcome = SubmitOutcome> = (submission: ModelSubmission, once: Once) => Promise<Outcome>
export type ModelSubmissions = Readonly<{ load: Submit; unload: Submit; remove: Submit; install: Submit<SubmitOutcome | 'differs'> }>

/** Stores a model with this configuration and fetches its files; for configurations that come from no gallery. */
export const createConfigInstall =
  ({ store, wake }: Pick<ModelSubmitDeps, 'store' | 'wake'>) =>
  async (config: ModelConfig, submission: Omit<ModelSubmission, 'model'>): Promise<SubmitOutcome | 'differs'> => {
    const outcome = await store.install({ ...submission, model: config.name, config, revision: revisionOf(config) }, null)
    if (outcome === 'done') await wake(config.name)
    return outcome
  }

export function createModelSubmissions({ models, nodes, catalogue, store, wake }: ModelSubmitDeps): ModelSubmissions {
  const waking =
    <Outcome extends string>(submit: Submit<Outcome>): Submit<Outcome> =>
    async (submission, once) => {
      const outcome = await submit(submission, once)
      if (outcome === 'done' || outcome === 'repeated') await wake(submission.model)
      return outcome
    }
  return {
    load: waking(async (submission, once) => {
      const model = await models.find(submission.model)
      if (model === null) return 'unknown'
      const { config } = model
      const count = await createMatchCount(nodes, [config])
      return await store.load({ ...submission, replicas: replicasToLoad(config.scheduling, count(config)) }, once)
    }),
    unload: waking((submission, once) => store.unload(submission, once)),
    remove: waking((submission, once) => store.remove(submission, once)),
    // The request may name a gallery beside the model.
    install: async (submission, once) => {
      const config = findModel(await catalogue(), submission.model)
      const install = waking<SubmitOutcome | 'differs'>((named) => store.install({ ...named, config, revision: revisionOf(config) }, once))
      return await install({ ...submission, model: config.name }, once)
    },
  }
}
