// What can be asked of an operation that exists. What comes of it is told by events; a refusal is told here.
import { NodeId, operationRoutes, type OperationNode, type OperationView } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { useNotices } from '../../components/notices.tsx'
import { titleOf } from './operation-words.ts'

/** On one node, or wherever it failed. */
export function useRetry(operation: OperationView) {
  const tell = useNotices()
  return useMutation({
    mutationFn: (node: OperationNode | null) =>
      call(operationRoutes.retry, {
        params: { id: operation.id },
        body: node === null ? {} : { node_id: NodeId.parse(node.node_id) },
      }),
    onError: (error) => tell('bad', `${titleOf(operation)}: ${error.message}`),
  })
}

export function useCancel(operation: OperationView) {
  const tell = useNotices()
  return useMutation({
    mutationFn: () => call(operationRoutes.cancel, { params: { id: operation.id }, body: {} }),
    onError: (error) => tell('bad', `${titleOf(operation)}: ${error.message}`),
  })
}
