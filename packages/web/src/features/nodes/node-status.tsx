// The status of a node, with the reason when it is not healthy.
import { formatDuration, type NodeView } from '@muster/protocol'
import { Pill } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { nodeMark, reasonOf, silentSince } from './node-words.pure.ts'

export function NodeStatusMark({ node }: { readonly node: NodeView }) {
  const since = silentSince(node)
  const { tone, sign, word } = nodeMark(node)
  return (
    <span className="flex flex-col">
      <Pill tone={tone} sign={sign}>
        {word}
      </Pill>
      {node.status !== 'healthy' && (
        <span className="text-soft" title={node.status_reason}>
          {node.status === 'pending' ? (
            'waiting for approval'
          ) : since === null ? (
            reasonOf(node)
          ) : (
            <LastSeen since={since} hasStopped={node.liveness === 'left'} />
          )}
        </span>
      )}
    </span>
  )
}

function LastSeen({ since, hasStopped }: { readonly since: string; readonly hasStopped: boolean }) {
  const age = formatDuration(useNow() - Date.parse(since))
  return <>{hasStopped ? `stopped ${age} ago` : `no heartbeat for ${age}`}</>
}
