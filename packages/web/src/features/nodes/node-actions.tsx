// What can be done with a node. What takes something away is asked about first (ask-sheet.tsx).
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Menu, MenuItem } from '../../components/menu.tsx'
import { useNotices } from '../../components/notices.tsx'

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
