// Deleting. What runs on it is named first; it ends only when somebody says so.
import type { BackendName } from '@muster/protocol'
import { useState } from 'react'
import { ApiFailure } from '../../api/client.ts'
import { Check } from '../../components/field.tsx'
import type { UsedBy } from './preview.pure.ts'
import { TargetsField, WishSheet } from './change-sheet.tsx'
import { everywhere, namedTargets, useDryRun, useFacts, type Wish } from './backend-change.ts'

export function DeleteSheet({ name }: { readonly name: BackendName }) {
  const [targets, setTargets] = useState(everywhere)
  const [isForced, setForced] = useState(false)
  const facts = useFacts(name)
  const named = namedTargets(targets)
  const problem = 'problem' in named ? named.problem : null
  const query = 'problem' in named ? null : { node: named.nodes, force: isForced }
  const wish: Wish | null = query === null ? null : { kind: 'backend.delete', name, query }
  const dry = useDryRun(wish, facts.world)
  const { error } = dry.query
  const refusal = wish !== null && error instanceof ApiFailure && error.code === 'in_use' ? error : null
  const having = facts.nodes.filter(({ id }) => facts.installed.has(id))
  const waitingFor = problem ?? 'Nothing, while models run on it.'
  return (
    <WishSheet title={`Delete ${name}`} {...{ name, kind: 'backend.delete', wish, dry, facts, waitingFor, isExplained: refusal !== null }}>
      <TargetsField
        {...{ targets, onChange: setTargets, nodes: having, all: 'From every node, also those that are away', problem, hasLabels: false }}
      />
      {(refusal !== null || isForced) && (
        <InUse sentence={refusal?.message ?? null} usedBy={facts.usedBy} isForced={isForced} onForce={setForced} />
      )}
    </WishSheet>
  )
}

interface InUseProps {
  /** The server's; null once it was overruled. */
  readonly sentence: string | null
  readonly usedBy: readonly UsedBy[]
  readonly isForced: boolean
  readonly onForce: (isForced: boolean) => void
}

function InUse({ sentence, usedBy, isForced, onForce }: InUseProps) {
  return (
    <section aria-label="In use" className="flex flex-col gap-2 rounded-md border border-wait p-3">
      <p className="font-medium text-wait">Models run on it.</p>
      {sentence !== null && <p className="[overflow-wrap:anywhere]">{sentence}</p>}
      <ul aria-label="Replicas" className="max-h-40 overflow-y-auto text-[13px]">
        {usedBy.map(({ model, nodeId, nodeName }, index) => (
          <li key={`${model} ${nodeId} ${index}`} className="[overflow-wrap:anywhere]">
            {model} <span className="text-soft">on {nodeName}</span>
          </li>
        ))}
      </ul>
      <Check label="Delete it anyway" hint="(drains them first)" isChecked={isForced} onChange={onForce} />
    </section>
  )
}
