// Before a model is unloaded or deleted: what exactly will happen.
import { type QueryClient, useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ModelName, modelRoutes, type ModelView, type OperationId } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys, modelReplicasQuery, modelsQuery } from '../../api/queries.ts'
import { ConfirmSheet, Consequences } from '../../components/dialog.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { deleteConsequences, unloadConsequences } from './model-words.pure.ts'

export interface ModelSheetProps {
  readonly model: ModelView
  readonly act: 'unload' | 'delete'
  readonly onClose: () => void
}

const names = { unload: 'Unload', delete: 'Delete' } as const

export function ModelSheet({ model, act, onClose }: ModelSheetProps) {
  const replicas = useQuery(modelReplicasQuery(model.name))
  const doing = useModelAct(act, { isSheet: true })
  const told = act === 'unload' ? unloadConsequences : deleteConsequences
  const title = `${names[act]} ${model.name}`
  return (
    <ConfirmSheet
      {...{ title, act: title, doing, onClose }}
      look={act === 'delete' ? 'danger' : 'primary'}
      keep="Leave it as it is"
      refused={`${names[act]} was refused.`}
      onConfirm={() => doing.mutate(model.name)}
    >
      <Loaded query={replicas} what="what runs of it">
        {(known) => <Consequences lines={told(model, known)} />}
      </Loaded>
    </ConfirmSheet>
  )
}

type Act = 'load' | 'unload' | 'delete' | 'install'

const asks: Readonly<Record<Act, (name: ModelName) => Promise<{ operation_id: OperationId }>>> = {
  load: (name) => call(modelRoutes.load, { params: { name }, body: {} }),
  unload: (name) => call(modelRoutes.unload, { params: { name }, body: {} }),
  delete: (name) => call(modelRoutes.remove, { params: { name } }),
  install: (name) => call(modelRoutes.install, { body: { model: name } }),
}

/** `isSheet`: a sheet asked for it, shows what is refused, and closes when it is begun. */
export function useModelAct(act: Act, { isSheet = false }: { readonly isSheet?: boolean } = {}) {
  const navigate = useNavigate()
  const tell = useNotices()
  return useMutation({
    mutationFn: asks[act],
    onSuccess: ({ operation_id: op }) =>
      act === 'delete'
        ? void navigate({ to: '/models', replace: isSheet, search: { op } })
        : void navigate({ to: '.', replace: isSheet, search: (before) => ({ ...before, act: undefined, model: undefined, op }) }),
    onError: (error) => !isSheet && tell('bad', error.message),
  })
}

/** The event says the same in a moment; what is shown meanwhile is not the old one. */
export function keepSaved(queries: QueryClient, saved: ModelView): void {
  queries.setQueryData(modelsQuery.queryKey, (all) => all?.map((each) => (each.name === saved.name ? saved : each)))
  void queries.invalidateQueries({ queryKey: keys.model(saved.name, 'placement') })
}
