// Before a node is drained or removed: what exactly will happen.
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { useMutation, useQuery } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { ConfirmSheet, Consequences } from '../../components/confirm-sheet.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { whatDrainDoes, whatRemovalDoes } from './what-happens.ts'

export interface AskSheetProps {
  readonly node: NodeView
  readonly what: 'drain' | 'remove'
  readonly onClose: () => void
  /** It is done; `onClose` unless told. */
  readonly onDone?: () => void
}

export function AskSheet({ node, what, onClose, onDone = onClose }: AskSheetProps) {
  const tell = useNotices()
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const change = useMutation({
    mutationFn: () => call(what === 'drain' ? nodeRoutes.drain : nodeRoutes.remove, { params: { id: node.id } }),
    onSuccess: () => {
      tell('idle', what === 'drain' ? `${node.name} is draining.` : `${node.name} was removed.`)
      onDone()
    },
  })
  const says = what === 'drain' ? whatDrainDoes : whatRemovalDoes
  const verb = what === 'drain' ? 'Drain' : 'Remove'
  return (
    <ConfirmSheet
      title={`${verb} ${node.name}?`}
      act={`${verb} ${node.name}`}
      look={what === 'drain' ? 'primary' : 'danger'}
      keep="Leave it as it is"
      refused={`Can’t ${what} it.`}
      doing={change}
      onConfirm={() => change.mutate()}
      onClose={onClose}
    >
      <Loaded query={replicas} what="what runs there">
        {(known) => <Consequences lines={says(node, known)} />}
      </Loaded>
    </ConfirmSheet>
  )
}

export const isAsked = (what: string | undefined): what is AskSheetProps['what'] => what === 'drain' || what === 'remove'
