// What can be done with a node. What takes something away is asked about first (ask-sheet.tsx).
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { Button, Menu, MenuItem } from '../../components/button.tsx'
import { ConfirmSheet, Consequences } from '../../components/dialog.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { whatDrainDoes, whatRemovalDoes } from './node-words.pure.ts'

export function useNodeChange(node: Pick<NodeView, 'id' | 'name'>) {
  const tell = useNotices()
  return useMutation({
    mutationFn: (change: 'approve' | 'drain' | 'resume') => call(nodeRoutes[change], { params: { id: node.id } }),
    onError: (error) => tell('bad', `${node.name}: ${error.message}`),
  })
}

export function ApproveButton({ node }: { readonly node: NodeView }) {
  const change = useNodeChange(node)
  return (
    <Button look="primary" isBusy={change.isPending} aria-label={`Approve ${node.name}`} onClick={() => change.mutate('approve')}>
      Approve
    </Button>
  )
}

function ResumeItem({ node }: { readonly node: NodeView }) {
  const change = useNodeChange(node)
  return <MenuItem onChoose={() => change.mutate('resume')}>Resume</MenuItem>
}

export function NodeMenu({ node }: { readonly node: NodeView }) {
  const navigate = useNavigate()
  const ask = (what: 'drain' | 'remove') => void navigate({ to: '.', search: (before) => ({ ...before, ask: what, on: node.id }) })
  return (
    <Menu label={`Actions of ${node.name}`}>
      {node.draining ? <ResumeItem node={node} /> : <MenuItem onChoose={() => ask('drain')}>Drain …</MenuItem>}
      <MenuItem onChoose={() => ask('remove')}>Remove …</MenuItem>
    </Menu>
  )
}

interface AskSheetProps {
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
