// What needs somebody, first and with the button that solves it.
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
import { needsAttention, noteShort, type Remedy } from './attention.pure.ts'

const nobody: ReadonlyMap<string, number> = new Map()

export function AttentionList({ nodes, models }: { readonly nodes: readonly NodeView[]; readonly models: readonly ModelView[] }) {
  const operations = useQuery(operationsQuery('all')).data
  const status = useQuery(statusQuery).data
  const [shortSince, setShortSince] = useState(nobody)
  const now = useNow()
  const short = noteShort(shortSince, models, now)
  if (short !== shortSince) setShortSince(short)
  const all = needsAttention({ nodes, models, operations: operations ?? [], isBusOpen: status?.bus.open ?? false, shortSince: short, now })
  const isAllKnown = operations !== undefined && status !== undefined
  return (
    <Section title="Needs attention">
      {all.length === 0 && !isAllKnown ? (
        <p className="min-h-7 text-soft">Reading what was given up …</p>
      ) : all.length === 0 ? (
        <p className="min-h-7 text-good">
          <span aria-hidden>✓ </span>Nothing needs you.
        </p>
      ) : (
        <ul className="rounded-md border bg-raised">
          {all.map(({ key, tone, text, remedy }) => (
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
