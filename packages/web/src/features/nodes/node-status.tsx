// How a node is, in a word, and why where that is no matter of course.
import type { NodeView } from '@muster/protocol'
import { Pill } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { formatDuration } from '../../format.ts'
import { reasonOf, silentSince, statusSign, statusTone } from './node-words.pure.ts'

export function NodeStatusMark({ node }: { readonly node: NodeView }) {
  const since = silentSince(node)
  return (
    <span className="flex flex-col">
      <Pill tone={statusTone[node.status]} sign={statusSign[node.status]}>
        {node.status}
      </Pill>
      {node.status !== 'healthy' && (
        <span className="text-soft" title={node.status_reason}>
          {node.status === 'pending' ? (
            'waits for approval'
          ) : since === null ? (
            reasonOf(node)
          ) : (
            <Silent since={since} hasLeft={node.status_reason.includes('goodbye')} />
          )}
        </span>
      )}
    </span>
  )
}

function Silent({ since, hasLeft }: { readonly since: string; readonly hasLeft: boolean }) {
  const age = formatDuration(useNow() - Date.parse(since))
  return <>{hasLeft ? `stopped ${age} ago` : `silent for ${age}`}</>
}
