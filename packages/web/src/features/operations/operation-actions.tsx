// The buttons of an operation: each says what it does, and is there only when it can be done.
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { NodeId, type OperationNode, operationRoutes, type OperationView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmSheet } from '../../components/dialog.tsx'
import { useNotices } from '../../components/notices.tsx'
import { plural } from '../../format.ts'
import { canRetry, isActive, isCancelling, nounOf, titleOf } from './operation-words.pure.ts'

export function OperationActions({ operation }: { readonly operation: OperationView }) {
  return (
    <div className="flex shrink-0 flex-wrap gap-2">
      <RetryAll operation={operation} />
      {isActive(operation) && <Cancel operation={operation} />}
    </div>
  )
}

function RetryAll({ operation }: { readonly operation: OperationView }) {
  const retry = useRetry(operation)
  const failed = operation.nodes.filter(canRetry).length
  // An operation without nodes is its one job.
  if (failed === 0 && !(operation.nodes.length === 0 && operation.state === 'failed')) return null
  const words = failed === 0 ? 'Retry' : `Retry on ${plural(failed, 'node')}`
  return (
    <Button isBusy={retry.isPending} onClick={() => retry.mutate(null)} aria-label={`${words}: ${titleOf(operation)}`}>
      {words}
    </Button>
  )
}

function Cancel({ operation }: { readonly operation: OperationView }) {
  const [isAsking, setAsking] = useState(false)
  const cancel = useCancel(operation)
  const isOff = cancel.isPending || isCancelling(operation)
  return (
    <>
      <Button disabled={isOff} onClick={() => setAsking(true)} aria-label={`${isOff ? 'Cancelling' : 'Cancel'} ${titleOf(operation)}`}>
        {isOff ? 'Cancelling' : 'Cancel'}
      </Button>
      {isAsking && (
        <ConfirmSheet
          title={`Cancel ${titleOf(operation)}?`}
          act={`Cancel the ${nounOf(operation.kind)}`}
          look="danger"
          keep="Keep going"
          onClose={() => setAsking(false)}
          onConfirm={() => {
            setAsking(false)
            cancel.mutate()
          }}
        >
          <p>{whatCancelDoes(operation)}</p>
        </ConfirmSheet>
      )}
    </>
  )
}

function whatCancelDoes({ nodes }: OperationView): string {
  const done = nodes.filter(({ status }) => status === 'success').length
  const kept = done === 0 ? 'Nothing that is on a disk already is undone.' : `What is done on ${plural(done, 'node')} stays as it is.`
  return `Nothing is tried any further, and what runs is called off. ${kept} A node that is away is told when it returns.`
}

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

function useCancel(operation: OperationView) {
  const tell = useNotices()
  return useMutation({
    mutationFn: () => call(operationRoutes.cancel, { params: { id: operation.id }, body: {} }),
    onError: (error) => tell('bad', `${titleOf(operation)}: ${error.message}`),
  })
}
