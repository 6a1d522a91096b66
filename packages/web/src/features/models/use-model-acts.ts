// What can be done about a model. Each is an operation, whose drawer opens.
import { modelRoutes, type ModelName, type OperationId } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { call } from '../../api/client.ts'
import { useNotices } from '../../components/notices.tsx'

export type Act = 'load' | 'unload' | 'delete' | 'install'

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
