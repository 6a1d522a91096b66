// Deletes a backend. Running models are listed, and stopped only when that is confirmed.
import type { BackendName } from '@muster/protocol'
import { useState } from 'react'
import { ApiFailure } from '../../api/client.ts'
import { Check } from '../../components/field.tsx'
import type { RunningReplica } from './preview.pure.ts'
import { TargetsField, ChangeSheet } from './change-sheet.tsx'
import { useDryRun, useBackendFacts, useTargets, type BackendChange } from './backend-change.ts'

export function DeleteSheet({ name }: { readonly name: BackendName }) {
  const [isForced, setForced] = useState(false)
  const facts = useBackendFacts(name)
  const { selection, problem, ...field } = useTargets()
  const query = selection === null ? null : { node: selection.nodes, force: isForced }
  const change: BackendChange | null = query === null ? null : { kind: 'backend.delete', name, query }
  const dryRun = useDryRun(change, facts.fingerprint)
  const { error } = dryRun.query
  const refusal = change !== null && error instanceof ApiFailure && error.code === 'in_use' ? error : null
  const having = facts.nodes.filter(({ id }) => facts.installed.has(id))
  const prompt = problem ?? 'Models are running on this backend.'
  return (
    <ChangeSheet
      title={`Delete ${name}`}
      {...{ name, kind: 'backend.delete', change, dryRun, facts, prompt, isExplained: refusal !== null }}
    >
      <TargetsField {...field} {...{ problem, nodes: having, allLabel: 'All nodes, including offline ones', hasLabels: false }} />
      {(refusal !== null || isForced) && (
        <InUse message={refusal?.message ?? null} replicas={facts.replicas} isForced={isForced} onForce={setForced} />
      )}
    </ChangeSheet>
  )
}

interface InUseProps {
  /** The server's message; null once deletion is forced. */
  readonly message: string | null
  readonly replicas: readonly RunningReplica[]
  readonly isForced: boolean
  readonly onForce: (isForced: boolean) => void
}

function InUse({ message, replicas, isForced, onForce }: InUseProps) {
  return (
    <section aria-label="In use" className="flex flex-col gap-2 rounded-md border border-wait p-3">
      <p className="font-medium text-wait">Models are running on this backend</p>
      {message !== null && <p className="[overflow-wrap:anywhere]">{message}</p>}
      <ul aria-label="Replicas" className="max-h-40 overflow-y-auto text-[13px]">
        {replicas.map(({ model, nodeId, nodeName }, index) => (
          <li key={`${model} ${nodeId} ${index}`} className="[overflow-wrap:anywhere]">
            {model} <span className="text-soft">on {nodeName}</span>
          </li>
        ))}
      </ul>
      <Check label="Delete anyway" hint="Drains these replicas first" isChecked={isForced} onChange={onForce} />
    </section>
  )
}
