// Actions on a model. Each starts an operation, whose drawer opens; unload and delete are confirmed first.
import { type QueryClient, useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ModelName, modelRoutes, type ModelView, type OperationId } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys, modelReplicasQuery, modelsQuery } from '../../api/queries.ts'
import { ConfirmSheet, Consequences } from '../../components/dialog.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { deleteEffects, unloadEffects } from './model-words.pure.ts'

const names = { unload: 'Unload', delete: 'Delete' } as const

export function ModelActionSheet({ model, act, onClose }: { model: ModelView; act: 'unload' | 'delete'; onClose: () => void }) {
  const replicas = useQuery(modelReplicasQuery(model.name))
  const mutation = useModelAction(act, { isSheet: true })
  const effects = act === 'unload' ? unloadEffects : deleteEffects
  const title = `${names[act]} ${model.name}`
  return (
    <ConfirmSheet
      {...{ title, action: title, mutation, onClose }}
      look={act === 'delete' ? 'danger' : 'primary'}
      errorTitle={`Could not ${act} ${model.name}`}
      onConfirm={() => mutation.mutate(model.name)}
    >
      <Loaded query={replicas} what="replicas">
        {(running) => <Consequences lines={effects(model, running)} />}
      </Loaded>
    </ConfirmSheet>
  )
}

type ModelAction = 'load' | 'unload' | 'delete' | 'install' | 'prefetch'

const requests: Readonly<Record<ModelAction, (name: ModelName) => Promise<{ operation_id: OperationId }>>> = {
  load: (name) => call(modelRoutes.load, { params: { name }, body: {} }),
  unload: (name) => call(modelRoutes.unload, { params: { name }, body: {} }),
  delete: (name) => call(modelRoutes.remove, { params: { name }, query: {} }),
  prefetch: (name) => call(modelRoutes.prefetch, { params: { name }, body: {} }),
  install: async (name) => {
    const answer = await call(modelRoutes.install, { body: { model: name } })
    if ('operation_id' in answer) return answer
    throw new Error('the controller answered with a preview')
  },
}

/** `isSheet`: called by a confirmation, which shows errors itself and closes when the operation starts. */
export function useModelAction(act: ModelAction, { isSheet = false }: { readonly isSheet?: boolean } = {}) {
  const navigate = useNavigate()
  const notify = useNotices()
  return useMutation({
    mutationFn: requests[act],
    onSuccess: ({ operation_id: op }) =>
      act === 'delete'
        ? void navigate({ to: '/models', replace: isSheet, search: { op } })
        : void navigate({ to: '.', replace: isSheet, search: (before) => ({ ...before, act: undefined, model: undefined, op }) }),
    onError: (error) => !isSheet && notify('bad', error.message),
  })
}

/** Shows the saved model before its event arrives. */
export function cacheSavedModel(queries: QueryClient, saved: ModelView): void {
  queries.setQueryData(modelsQuery.queryKey, (all) => all?.map((each) => (each.name === saved.name ? saved : each)))
  void queries.invalidateQueries({ queryKey: keys.model(saved.name, 'placement') })
}
