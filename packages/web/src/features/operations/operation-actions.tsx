// Retry, pause, cancel and dismissal of an operation. Each button is shown only when its action is possible.
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { NodeId, type OperationNode, operationRoutes, type OperationView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmSheet } from '../../components/dialog.tsx'
import { useNotices } from '../../components/notices.tsx'
import { plural } from '../../format.ts'
import { canPause, canRetry, isActive, isCancelling, isPaused, titleOf } from './operation-words.pure.ts'

export function OperationActions({ operation }: { readonly operation: OperationView }) {
  return (
    <div className="flex shrink-0 flex-wrap gap-2">
      <RetryAll operation={operation} />
      {canPause(operation) && <Control operation={operation} control={isPaused(operation) ? 'resume' : 'pause'} />}
      {isActive(operation) && <Cancel operation={operation} />}
      {!isActive(operation) && operation.dismissed_at === undefined && <Control operation={operation} control="dismiss" />}
    </div>
  )
}

function RetryAll({ operation }: { readonly operation: OperationView }) {
  const retry = useRetry(operation)
  const failed = operation.nodes.filter(canRetry).length
  // An operation without nodes is retried as a whole.
  if (failed === 0 && !(operation.nodes.length === 0 && operation.state === 'failed')) return null
  const text = failed === 0 ? 'Retry' : `Retry on ${plural(failed, 'node')}`
  return (
    <Button isBusy={retry.isPending} onClick={() => retry.mutate(null)} aria-label={`${text}: ${titleOf(operation)}`}>
      {text}
    </Button>
  )
}

const controls = { pause: 'Pause', resume: 'Resume', dismiss: 'Dismiss' } as const

interface ControlProps {
  readonly operation: OperationView
  readonly control: keyof typeof controls
}

function Control({ operation, control }: ControlProps) {
  const notify = useNotices()
  const mutation = useMutation({
    mutationFn: () => call(operationRoutes[control], { params: { id: operation.id }, body: {} }),
    onError: (error) => notify('bad', `Could not ${control} “${titleOf(operation)}”: ${error.message}`),
  })
  return (
    <Button isBusy={mutation.isPending} onClick={() => mutation.mutate()} aria-label={`${controls[control]} ${titleOf(operation)}`}>
      {controls[control]}
    </Button>
  )
}

function Cancel({ operation }: { readonly operation: OperationView }) {
  const [isConfirming, setConfirming] = useState(false)
  const cancel = useCancel(operation)
  const isCancelled = cancel.isPending || isCancelling(operation)
  return (
    <>
      <Button
        disabled={isCancelled}
        onClick={() => setConfirming(true)}
        aria-label={`${isCancelled ? 'Cancelling' : 'Cancel'} ${titleOf(operation)}`}
      >
        {isCancelled ? 'Cancelling' : 'Cancel'}
      </Button>
      {isConfirming && (
        <ConfirmSheet
          title={`Cancel ${titleOf(operation)}?`}
          action="Cancel operation"
          look="danger"
          dismiss="Keep running"
          onClose={() => setConfirming(false)}
          onConfirm={() => {
            setConfirming(false)
            cancel.mutate()
          }}
        >
          <p>{describeCancel(operation)}</p>
        </ConfirmSheet>
      )}
    </>
  )
}

function describeCancel({ nodes }: OperationView): string {
  const done = nodes.filter(({ status }) => status === 'success').length
  const kept = done === 0 ? 'Files already on disk are kept.' : `Completed work on ${plural(done, 'node')} is kept.`
  return `Stops further attempts and aborts running work. ${kept} Offline nodes are notified when they return.`
}

/** Retries one node, or all failed nodes when null. A node that waits for its next attempt is tried now. */
export function useRetry(operation: OperationView) {
  const notify = useNotices()
  return useMutation({
    mutationFn: (node: OperationNode | null) =>
      call(operationRoutes.retry, {
        params: { id: operation.id },
        body: node === null ? {} : { node_id: NodeId.parse(node.node_id) },
      }),
    onError: (error) => notify('bad', `Could not retry “${titleOf(operation)}”: ${error.message}`),
  })
}

function useCancel(operation: OperationView) {
  const notify = useNotices()
  return useMutation({
    mutationFn: () => call(operationRoutes.cancel, { params: { id: operation.id }, body: {} }),
    onError: (error) => notify('bad', `Could not cancel “${titleOf(operation)}”: ${error.message}`),
  })
}
