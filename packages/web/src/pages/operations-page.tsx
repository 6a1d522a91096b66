// Active and finished operations.
import type { OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { operationsQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { SearchField, SelectField } from '../components/field.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { OperationCard } from '../features/operations/operation-progress.tsx'
import { filterOperations, kindChoices, sentenceOf } from '../features/operations/operation-words.pure.ts'

export function OperationsPage() {
  const { tab } = useSearch({ from: '/operations' })
  const selected = tab === 'history' ? 'history' : 'active'
  const active = useQuery(operationsQuery('active'))
  const tabs = [
    { id: 'active', label: 'Active', count: active.data?.length },
    { id: 'history', label: 'History' },
  ]
  return (
    <Page title="Operations" sentence={active.data === undefined ? '' : sentenceOf(active.data)}>
      <Tabs tabs={tabs} selected={selected} label="Operation views" />
      <Filters />
      {selected === 'active' ? (
        <Loaded query={active} what="operations" empty={<NoOperations />}>
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
      <SearchField label="Search operations" text={q} onType={(typed) => set({ q: typed })} />
    </div>
  )
}

function Cards({ operations, label }: { readonly operations: readonly OperationView[]; readonly label: string }) {
  const { q, kind } = useSearch({ from: '/operations' })
  const navigate = useNavigate({ from: '/operations' })
  const matching = filterOperations(operations, { kind, search: q })
  if (matching.length === 0)
    return (
      <Empty title="No operations match these filters.">
        <Button onClick={() => void navigate({ search: (before) => ({ ...before, q: undefined, kind: undefined }) })}>Show all</Button>
      </Empty>
    )
  return (
    <section aria-label={label} className="flex flex-col gap-2">
      {matching.map((operation) => (
        <OperationCard key={operation.id} operation={operation} />
      ))}
    </section>
  )
}

function History() {
  return (
    <Loaded query={useQuery(operationsQuery('finished'))} what="history" empty={<Empty title="No finished operations." />}>
      {(operations) => <Cards operations={operations} label="Finished operations" />}
    </Loaded>
  )
}

function NoOperations() {
  return (
    <Empty title="No operations running.">
      <p>Installs, upgrades, deletions, loads and unloads appear here while they run. To start one:</p>
      <CopyBlock text="muster backends install llama" label="install command" />
    </Empty>
  )
}
