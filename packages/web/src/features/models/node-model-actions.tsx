// Actions on a model on one node: load, unload, delete and prefetch there. Each starts an operation, whose drawer opens; unload and
// delete are confirmed first. The address has `act` and `on`: the node on the page of a model, the model on the page of a node.
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { ModelName, modelRoutes, type NodeId, type OperationId } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Menu, MenuItem } from '../../components/button.tsx'
import { ConfirmSheet, Consequences, useClose } from '../../components/dialog.tsx'
import { useNotices } from '../../components/notices.tsx'
import { nodeModelEffects, type NodeModelAction } from './model-words.pure.ts'

export interface NodeModel {
  readonly model: string
  readonly node: { readonly id: NodeId; readonly name: string }
}

type Action = NodeModelAction | 'load' | 'prefetch'

const requests: Readonly<Record<Action, (about: NodeModel) => Promise<{ operation_id: OperationId }>>> = {
  load: ({ model, node }) => call(modelRoutes.load, { params: nameOf(model), body: { node_id: node.id } }),
  'unload-here': ({ model, node }) => call(modelRoutes.unload, { params: nameOf(model), body: { node_id: node.id } }),
  'delete-here': ({ model, node }) => call(modelRoutes.remove, { params: nameOf(model), query: { node: node.id } }),
  prefetch: ({ model, node }) => call(modelRoutes.prefetch, { params: nameOf(model), body: { nodes: [node.id] } }),
}

const nameOf = (model: string): { name: ModelName } => ({ name: ModelName.parse(model) })

export function useNodeModelAction(act: Action, { isSheet = false }: { readonly isSheet?: boolean } = {}) {
  const navigate = useNavigate()
  const notify = useNotices()
  return useMutation({
    mutationFn: requests[act],
    onSuccess: ({ operation_id: op }) =>
      void navigate({ to: '.', replace: isSheet, search: (before) => ({ ...before, act: undefined, on: undefined, op }) }),
    onError: (error) => !isSheet && notify('bad', error.message),
  })
}

/** `on`: the value of the address that names the other of model and node. */
export function NodeModelMenu({ model, node, on }: NodeModel & { readonly on: string }) {
  const navigate = useNavigate()
  const confirm = (act: NodeModelAction) => void navigate({ to: '.', search: (before) => ({ ...before, act, on }) })
  return (
    <Menu label={`Actions for ${model} on ${node.name}`}>
      <MenuItem onSelect={() => confirm('unload-here')}>Unload on this node…</MenuItem>
      <MenuItem onSelect={() => confirm('delete-here')}>Delete on this node…</MenuItem>
    </Menu>
  )
}

/** For a node without a replica. */
export function PlaceMenu({ model, node }: NodeModel) {
  const load = useNodeModelAction('load')
  const prefetch = useNodeModelAction('prefetch')
  return (
    <Menu label={`Actions for ${model} on ${node.name}`}>
      <MenuItem onSelect={() => load.mutate({ model, node })}>Load on this node</MenuItem>
      <MenuItem onSelect={() => prefetch.mutate({ model, node })}>Prefetch files</MenuItem>
    </Menu>
  )
}

const names: Readonly<Record<NodeModelAction, string>> = { 'unload-here': 'Unload', 'delete-here': 'Delete' }

export function NodeModelSheet({ model, node, act }: NodeModel & { readonly act: NodeModelAction }) {
  const onClose = useClose('act', 'on')
  const mutation = useNodeModelAction(act, { isSheet: true })
  const title = `${names[act]} ${model} on ${node.name}`
  return (
    <ConfirmSheet
      {...{ title, action: title, mutation, onClose }}
      look={act === 'delete-here' ? 'danger' : 'primary'}
      errorTitle={`Could not ${names[act].toLowerCase()} ${model}`}
      onConfirm={() => mutation.mutate({ model, node })}
    >
      <Consequences lines={nodeModelEffects(act, { model, node: node.name })} />
    </ConfirmSheet>
  )
}
