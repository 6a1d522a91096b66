// Submits operations about models. Each submission is one transaction; the loops do the rest.
import type { ModelConfig, ModelName } from '@muster/protocol'
import type { ModelSubmission, ModelSubmissionStore, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelStore } from '../store/models.ts'
import type { NodeStore } from '../store/nodes.ts'
import { revisionOf } from './config.ts'
import { replicasToLoad } from '../loads/replica-set.pure.ts'
import { installNote, type ModelInstall, type PlanModelInstall } from './plan-install.ts'
import { createMatchCount } from './view.ts'

export interface ModelSubmitDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly nodes: Pick<NodeStore, 'list'>
  readonly planInstall: PlanModelInstall
  readonly store: ModelSubmissionStore
  /** The model has changed. */
  readonly wake: (model: ModelName) => Promise<void>
}

type Submit<Outcome = SubmitOutcome> = (submission: ModelSubmission, once: Once) => Promise<Outcome>
export type ModelSubmissions = Readonly<{
  load: Submit
  unload: Submit
  remove: Submit
  /** The name of the model is that of the plan. */
  install: (request: ModelInstall, submission: Omit<ModelSubmission, 'model'>, once: Once) => Promise<Installed>
}>
export type Installed = Readonly<{ outcome: SubmitOutcome | 'differs'; model: ModelName }>

/** Stores a model with this configuration and fetches its files; for configurations that come from no gallery. */
export const createConfigInstall =
  ({ store, wake }: Pick<ModelSubmitDeps, 'store' | 'wake'>) =>
  async (config: ModelConfig, submission: Omit<ModelSubmission, 'model'>): Promise<SubmitOutcome | 'differs'> => {
    const outcome = await store.install({ ...submission, model: config.name, config, revision: revisionOf(config) }, null)
    if (outcome === 'done') await wake(config.name)
    return outcome
  }

export function createModelSubmissions({ models, nodes, planInstall, store, wake }: ModelSubmitDeps): ModelSubmissions {
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
    async install(request, submission, once) {
      const plan = await planInstall(request)
      const { config } = plan
      const submit = waking<SubmitOutcome | 'differs'>((named) =>
        store.install({ ...named, config, revision: revisionOf(config), note: installNote(plan) }, once),
      )
      return { outcome: await submit({ ...submission, model: config.name }, once), model: config.name }
    },
  }
}
