// Problems that need attention, each with the button that solves it.
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { modelRoutes, type ModelView, nodeRoutes, type NodeView, operationRoutes } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { operationsQuery, statusQuery } from '../../api/queries.ts'
import { Button, buttonClass } from '../../components/button.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Section } from '../../components/page.tsx'
import { toneText } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { findProblems, trackShortfalls, type Remedy } from './attention.pure.ts'

const noModels: ReadonlyMap<string, number> = new Map()

export function AttentionList({ nodes, models }: { readonly nodes: readonly NodeView[]; readonly models: readonly ModelView[] }) {
  const operations = useQuery(operationsQuery('all')).data
  const status = useQuery(statusQuery).data
  const [shortSince, setShortSince] = useState(noModels)
  const now = useNow()
  const short = trackShortfalls(shortSince, models, now)
  if (short !== shortSince) setShortSince(short)
  const items = findProblems({ nodes, models, operations: operations ?? [], isBusOpen: status?.bus.open ?? false, shortSince: short, now })
  const isComplete = operations !== undefined && status !== undefined
  return (
    <Section title="Needs attention">
      {items.length === 0 && !isComplete ? (
        <p className="min-h-7 text-soft">Loading operations…</p>
      ) : items.length === 0 ? (
        <p className="min-h-7 text-good">
          <span aria-hidden>✓ </span>Nothing needs attention.
        </p>
      ) : (
        <ul className="rounded-md border bg-raised">
          {items.map(({ key, tone, text, remedy }) => (
            <li key={key} className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b px-3 py-2 last:border-b-0">
              <p className="min-w-0 flex-1 basis-60 [overflow-wrap:anywhere]">
                <span aria-hidden className={toneText[tone]}>
                  {tone === 'bad' ? '✕ ' : '▲ '}
                </span>
                {text}
              </p>
              <RemedyButton remedy={remedy} />
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}

function RemedyButton({ remedy }: { readonly remedy: Remedy }) {
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

type RemedyProps<T extends Remedy['type']> = { readonly remedy: Extract<Remedy, { type: T }> }

function Approve({ remedy: { nodeId, name } }: RemedyProps<'approve'>) {
  const notify = useNotices()
  const approve = useMutation({
    mutationFn: () => call(nodeRoutes.approve, { params: { id: nodeId } }),
    onSuccess: () => notify('good', `Approved ${name}`),
    onError: (error) => notify('bad', `Could not approve ${name}: ${error.message}`),
  })
  return (
    <Button aria-label={`Approve ${name}`} isBusy={approve.isPending} onClick={() => approve.mutate()}>
      Approve
    </Button>
  )
}

function Retry({ remedy: { operationId, name } }: RemedyProps<'retry'>) {
  const notify = useNotices()
  const navigate = useNavigate()
  const retry = useMutation({
    mutationFn: () => call(operationRoutes.retry, { params: { id: operationId }, body: {} }),
    onSuccess: () => void navigate({ to: '.', search: (before) => ({ ...before, op: operationId }) }),
    onError: (error) => notify('bad', `Could not retry the ${name}: ${error.message}`),
  })
  return (
    <Button aria-label={`Retry the ${name}`} isBusy={retry.isPending} onClick={() => retry.mutate()}>
      Retry
    </Button>
  )
}

function Load({ remedy: { model } }: RemedyProps<'load'>) {
  const notify = useNotices()
  const navigate = useNavigate()
  const load = useMutation({
    mutationFn: () => call(modelRoutes.load, { params: { name: model }, body: {} }),
    onSuccess: ({ operation_id: op }) => void navigate({ to: '.', search: (before) => ({ ...before, op }) }),
    onError: (error) => notify('bad', `Could not load ${model}: ${error.message}`),
  })
  return (
    <span className="flex gap-2">
      <Link to="/models/$name" params={{ name: model }} aria-label={`Open ${model}`} className={buttonClass()}>
        Open
      </Link>
      <Button aria-label={`Retry loading ${model}`} isBusy={load.isPending} onClick={() => load.mutate()}>
        Retry
      </Button>
    </span>
  )
}
