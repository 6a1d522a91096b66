// The button that solves what needs somebody, or the way to where it is solved.
import { modelRoutes, nodeRoutes, operationRoutes } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { call } from '../../api/client.ts'
import { Button, buttonClass } from '../../components/button.tsx'
import { useNotices } from '../../components/notices.tsx'
import type { Remedy } from './needs-attention.ts'

export function RemedyButton({ remedy }: { readonly remedy: Remedy }) {
  switch (remedy.type) {
    case 'approve':
      return <Approve remedy={remedy} />
    case 'retry':
      return <Retry remedy={remedy} />
    case 'load':
      return <Load remedy={remedy} />
    case 'open_node':
      return (
        <Link to="/nodes/$id" params={{ id: remedy.nodeId }} aria-label={`Open ${remedy.name}`} className={buttonClass()}>
          Open
        </Link>
      )
    case 'open_model':
      return (
        <Link
          to="/models/$name"
          params={{ name: remedy.model }}
          search={{ tab: 'placement' }}
          aria-label={`Open ${remedy.model}`}
          className={buttonClass()}
        >
          Open
        </Link>
      )
    case 'open_page':
      return (
        <Link to={remedy.page} aria-label={`Open ${remedy.page.slice(1)}`} className={buttonClass()}>
          Open
        </Link>
      )
    case 'secure_bus':
      return <code className="text-[13px] whitespace-nowrap">muster nats-config</code>
  }
}

type Of<T extends Remedy['type']> = { readonly remedy: Extract<Remedy, { type: T }> }

function Approve({ remedy: { nodeId, name } }: Of<'approve'>) {
  const tell = useNotices()
  const approve = useMutation({
    mutationFn: () => call(nodeRoutes.approve, { params: { id: nodeId } }),
    onSuccess: () => tell('good', `${name} is approved.`),
    onError: (error) => tell('bad', error.message),
  })
  return (
    <Button aria-label={`Approve ${name}`} isBusy={approve.isPending} onClick={() => approve.mutate()}>
      Approve
    </Button>
  )
}

function Retry({ remedy: { operationId, name } }: Of<'retry'>) {
  const tell = useNotices()
  const navigate = useNavigate()
  const retry = useMutation({
    mutationFn: () => call(operationRoutes.retry, { params: { id: operationId }, body: {} }),
    onSuccess: () => void navigate({ to: '.', search: (before) => ({ ...before, op: operationId }) }),
    onError: (error) => tell('bad', error.message),
  })
  return (
    <Button aria-label={`Retry ${name}`} isBusy={retry.isPending} onClick={() => retry.mutate()}>
      Retry
    </Button>
  )
}

function Load({ remedy: { model } }: Of<'load'>) {
  const tell = useNotices()
  const navigate = useNavigate()
  const load = useMutation({
    mutationFn: () => call(modelRoutes.load, { params: { name: model }, body: {} }),
    onSuccess: ({ operation_id: op }) => void navigate({ to: '.', search: (before) => ({ ...before, op }) }),
    onError: (error) => tell('bad', error.message),
  })
  return (
    <span className="flex gap-2">
      <Link to="/models/$name" params={{ name: model }} aria-label={`Open ${model}`} className={buttonClass()}>
        Open
      </Link>
      <Button aria-label={`Try again: load ${model}`} isBusy={load.isPending} onClick={() => load.mutate()}>
        Try again
      </Button>
    </span>
  )
}
