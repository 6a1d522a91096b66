// Actions on the selected nodes: the bar below the list, and the confirmation, which lists the nodes and then the results.
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type NodeAction, type NodeActionRequest, type NodeActionResult, nodeActionRoutes, type NodeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmSheet, Dialog } from '../../components/dialog.tsx'
import { Check, TextField } from '../../components/field.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { plural } from '../../format.ts'
import { bulkActions, bulkEffect, bulkTitle, bulkVerbs, describeResults, sortResults } from './node-selection.pure.ts'

export function BulkBar({ picked, shown }: { readonly picked: readonly NodeView[]; readonly shown: number }) {
  const navigate = useNavigate()
  const change = (search: { act?: NodeAction; picked?: string | undefined }): void =>
    void navigate({ to: '/nodes', search: (before) => ({ ...before, ...search }) })
  if (picked.length === 0) return null
  return (
    <div
      role="toolbar"
      aria-label="Actions for the selected nodes"
      className="sticky bottom-2 z-10 flex flex-wrap items-center gap-2 rounded-md border bg-raised px-3 py-2 shadow-lg"
    >
      <span className="mr-2 font-medium">{plural(picked.length, 'node')} selected</span>
      {bulkActions.map((act) => (
        <Button key={act} look={act === 'remove' ? 'danger' : 'plain'} onClick={() => change({ act })}>
          {bulkVerbs[act]}…
        </Button>
      ))}
      {picked.length < shown && (
        <Button look="bare" onClick={() => change({ picked: 'all' })}>
          Select all {shown}
        </Button>
      )}
      <Button look="bare" onClick={() => change({ picked: undefined })}>
        Clear selection
      </Button>
    </div>
  )
}

interface BulkSheetProps {
  readonly act: NodeAction
  readonly picked: readonly NodeView[]
  readonly onClose: () => void
  /** Closes the results. */
  readonly onDone: () => void
}

/** Acts on the nodes that were selected when it opened, however the list changes meanwhile. */
export function BulkSheet({ act, picked, onClose, onDone }: BulkSheetProps) {
  const [nodes] = useState(picked)
  const [label, setLabel] = useState<LabelInput>({ key: '', value: '', isRemoved: false })
  const request: NodeActionRequest = {
    ...{ action: act, nodes: nodes.map(({ id }) => id) },
    ...(act === 'label' ? { labels: { [label.key.trim()]: label.isRemoved ? null : label.value.trim() } } : {}),
  }
  const mutation = useMutation({ mutationFn: () => call(nodeActionRoutes.run, { body: request }) })
  if (mutation.data !== undefined) return <ResultsSheet act={act} results={mutation.data.results} onClose={onDone} />
  const title = bulkTitle(act, nodes.length)
  return (
    <ConfirmSheet
      title={`${title}?`}
      action={title}
      look={act === 'remove' ? 'danger' : 'primary'}
      errorTitle={`Could not ${act} the nodes`}
      {...{ mutation, onClose }}
      onConfirm={() => mutation.mutate()}
    >
      <p>{bulkEffect(act)}</p>
      {act === 'label' ? (
        <>
          <LabelFields label={label} onChange={setLabel} />
          <NodeList items={nodes.map(({ id, name }) => ({ id, name, text: '' }))} />
        </>
      ) : (
        <Preview request={request} />
      )}
    </ConfirmSheet>
  )
}

type LabelInput = Readonly<{ key: string; value: string; isRemoved: boolean }>

function LabelFields({ label, onChange }: { readonly label: LabelInput; readonly onChange: (label: LabelInput) => void }) {
  return (
    <div className="flex flex-col gap-2">
      <TextField
        label="Label"
        placeholder="rack"
        className="font-mono"
        value={label.key}
        onChange={(event) => onChange({ ...label, key: event.target.value })}
      />
      <TextField
        label="Value"
        placeholder="b2"
        className="font-mono"
        disabled={label.isRemoved}
        value={label.value}
        onChange={(event) => onChange({ ...label, value: event.target.value })}
      />
      <Check label="Remove this label" isChecked={label.isRemoved} onChange={(isRemoved) => onChange({ ...label, isRemoved })} />
    </div>
  )
}

/** The dry run of the controller: the effect on each node. */
function Preview({ request }: { readonly request: NodeActionRequest }) {
  const preview = useQuery({
    queryKey: ['node-actions', request],
    queryFn: ({ signal }) => call(nodeActionRoutes.run, { body: { ...request, dry_run: true }, signal }),
    gcTime: 0,
  })
  return (
    <Loaded query={preview} what="effects">
      {({ results }) => <NodeList items={sortResults(results).map(expectedItemOf)} />}
    </Loaded>
  )
}

function ResultsSheet({ act, results, onClose }: { act: NodeAction; results: readonly NodeActionResult[]; onClose: () => void }) {
  return (
    <Dialog
      title={`${bulkVerbs[act]}: results`}
      place="sheet"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          Close
        </Button>
      }
    >
      <p role="status">{describeResults(results)}</p>
      <NodeList items={sortResults(results).map(itemOf)} />
    </Dialog>
  )
}

type Item = Readonly<{ id: string; name: string; text: string; outcome?: NodeActionResult['outcome'] }>

const itemOf = ({ node_id: id, node_name: name, message: text, outcome }: NodeActionResult): Item => ({
  id,
  name: name || id,
  text,
  outcome,
})

/** Nothing has happened yet, so only a failure has a color. */
const expectedItemOf = (result: NodeActionResult): Item => {
  const { outcome, ...item } = itemOf(result)
  return outcome === 'failed' ? { ...item, outcome } : item
}

const tones: Readonly<Record<NodeActionResult['outcome'], Tone>> = { done: 'good', unchanged: 'idle', failed: 'bad' }

function NodeList({ items }: { readonly items: readonly Item[] }) {
  return (
    <ul aria-label="Nodes of the action" className="max-h-80 overflow-y-auto rounded-md border">
      {items.map(({ id, name, text, outcome }) => (
        <li key={id} className="flex flex-wrap justify-between gap-x-4 border-b px-3 py-1 last:border-b-0 [overflow-wrap:anywhere]">
          <span className="font-medium">{name}</span>
          {outcome === undefined ? <span className="text-soft">{text}</span> : <Pill tone={tones[outcome]}>{text}</Pill>}
        </li>
      ))}
    </ul>
  )
}
