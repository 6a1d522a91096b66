// Actions on a node. Draining and removing are confirmed first.
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { Button, Menu, MenuItem } from '../../components/button.tsx'
import { ConfirmSheet, Consequences } from '../../components/dialog.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { drainEffects, removalEffects } from './node-words.pure.ts'

export function useNodeChange(node: Pick<NodeView, 'id' | 'name'>) {
  const notify = useNotices()
  return useMutation({
    mutationFn: (change: 'approve' | 'drain' | 'resume') => call(nodeRoutes[change], { params: { id: node.id } }),
    onError: (error, change) => notify('bad', `Could not ${change} ${node.name}: ${error.message}`),
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
  return <MenuItem onSelect={() => change.mutate('resume')}>Resume</MenuItem>
}

export function NodeMenu({ node }: { readonly node: NodeView }) {
  const navigate = useNavigate()
  const confirm = (act: 'drain' | 'remove') => void navigate({ to: '.', search: (before) => ({ ...before, act, node: node.id }) })
  return (
    <Menu label={`Actions for ${node.name}`}>
      {node.draining ? <ResumeItem node={node} /> : <MenuItem onSelect={() => confirm('drain')}>Drain…</MenuItem>}
      <MenuItem onSelect={() => confirm('remove')}>Remove…</MenuItem>
    </Menu>
  )
}

interface NodeActionSheetProps {
  readonly node: NodeView
  readonly act: 'drain' | 'remove'
  readonly onClose: () => void
  /** Called after success; `onClose` by default. */
  readonly onDone?: () => void
}

export function NodeActionSheet({ node, act, onClose, onDone = onClose }: NodeActionSheetProps) {
  const notify = useNotices()
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const change = useMutation({
    mutationFn: () => call(act === 'drain' ? nodeRoutes.drain : nodeRoutes.remove, { params: { id: node.id } }),
    onSuccess: () => {
      notify('idle', act === 'drain' ? `Draining ${node.name}` : `Removed ${node.name}`)
      onDone()
    },
  })
  const effects = act === 'drain' ? drainEffects : removalEffects
  const verb = act === 'drain' ? 'Drain' : 'Remove'
  return (
    <ConfirmSheet
      title={`${verb} ${node.name}?`}
      action={`${verb} ${node.name}`}
      look={act === 'drain' ? 'primary' : 'danger'}
      errorTitle={`Could not ${act} ${node.name}`}
      mutation={change}
      onConfirm={() => change.mutate()}
      onClose={onClose}
    >
      <Loaded query={replicas} what="replicas">
        {(running) => <Consequences lines={effects(node, running)} />}
      </Loaded>
    </ConfirmSheet>
  )
}

export const isNodeAction = (act: string | undefined): act is NodeActionSheetProps['act'] => act === 'drain' || act === 'remove'
