// How far a model is with coming up: as its operation says, which is told by events, or as the model's own status does.
import type { ModelView, OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { modelLoadStatusQuery, operationsQuery } from '../../api/queries.ts'
import { isComingUp, type Coming } from './model-words.ts'

export function useComing(model: ModelView): Coming | null {
  const isComing = isComingUp(model.state)
  const operations = useQuery(operationsQuery('active')).data
  const operation = operations?.find(
    ({ kind, model: name, total_bytes: total }) => kind === 'model.load' && name === model.name && total > 0,
  )
  const status = useQuery({
    ...modelLoadStatusQuery(model.name),
    enabled: isComing && operations !== undefined && operation === undefined,
  }).data
  if (!isComing) return null
  if (operation !== undefined) return ofOperation(operation)
  if (status === undefined) return null
  return { node: status.node, percent: status.progress, current: status.current_bytes, total: status.total_bytes }
}

function ofOperation({ progress, current_bytes: current, total_bytes: total, nodes }: OperationView): Coming {
  const busy = nodes.find(({ status }) => status !== 'success' && status !== 'skipped')
  return { node: busy?.node_name ?? null, percent: progress, current, total }
}
