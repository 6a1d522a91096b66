// What is going on, and what was.
import type { OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { operationsQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { SearchText, SelectField } from '../components/field.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { OperationCard } from '../features/operations/operation-card.tsx'
import { filterOperations, kindChoices, sentenceOf } from '../features/operations/operation-words.pure.ts'

export function OperationsPage() {
  const { tab } = useSearch({ from: '/operations' })
  const chosen = tab === 'history' ? 'history' : 'active'
  const active = useQuery(operationsQuery('active'))
  const tabs = [
    { id: 'active', label: 'Active', ...(active.data === undefined ? {} : { count: active.data.length }) },
    { id: 'history', label: 'History' },
  ]
  return (
    <Page title="Operations" sentence={active.data === undefined ? '' : sentenceOf(active.data)}>
      <Tabs tabs={tabs} chosen={chosen} label="Operations" />
      <Filters />
      {chosen === 'active' ? (
        <Loaded query={active} what="the operations" empty={<NothingRuns />}>
          {(operations) => <Cards operations={operations} label="Active operations" />}
        </Loaded>
      ) : (
        <History />
      )}
    </Page>
  )
}

function Filters() {
  const { q = '', kind = '' } = useSearch({ from: '/operations' })
  const navigate = useNavigate({ from: '/operations' })
  const set = (changed: { q?: string | undefined; kind?: string | undefined }): void =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true })
  return (
    <div className="flex flex-wrap gap-2">
      <SelectField
        label="Kind"
        isLabelHidden
        choices={kindChoices}
        value={kindChoices.some(({ value }) => value === kind) ? kind : ''}
        onChange={({ target }) => set({ kind: target.value || undefined })}
      />
      <SearchText label="Search operations" text={q} onType={(typed) => set({ q: typed })} />
    </div>
  )
}

function Cards({ operations, label }: { readonly operations: readonly OperationView[]; readonly label: string }) {
  const { q, kind } = useSearch({ from: '/operations' })
  const navigate = useNavigate({ from: '/operations' })
  const found = filterOperations(operations, { kind, search: q })
  if (found.length === 0)
    return (
      <Empty title={`None of ${operations.length} is like that.`}>
        <Button onClick={() => void navigate({ search: (before) => ({ ...before, q: undefined, kind: undefined }) })}>Show all</Button>
      </Empty>
    )
  return (
    <section aria-label={label} className="flex flex-col gap-2">
      {found.map((operation) => (
        <OperationCard key={operation.id} operation={operation} />
      ))}
    </section>
  )
}

function History() {
  return (
    <Loaded query={useQuery(operationsQuery('finished'))} what="the history" empty={<Empty title="Nothing has ended yet." />}>
      {(operations) => <Cards operations={operations} label="Operations that have ended" />}
    </Loaded>
  )
}

function NothingRuns() {
  return (
    <Empty title="Nothing is running.">
      <p>What is installed, upgraded, deleted, loaded and unloaded is shown here while it goes on. To begin with one:</p>
      <CopyBlock text="muster backends install llama" label="a command to install a backend" />
    </Empty>
  )
}
