import type { NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { nodeIntentsQuery, nodeReplicasQuery, nodesQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { Tabs } from '../components/tabs.tsx'
import { useNow } from '../components/time.tsx'
import { useClose } from '../components/dialog.tsx'
import { ApproveButton, AskSheet, isAsked, useNodeChange } from '../features/nodes/node-actions.tsx'
import { NodeBackends, NodeFacts, NodeReplicas, NodeWishes } from '../features/nodes/node-tabs.tsx'
import { NodeLabels, VramBudget } from '../features/nodes/node-settings.tsx'
import { NodeLogs } from '../features/nodes/node-logs.tsx'
import { NodeStatusMark } from '../features/nodes/node-status.tsx'
import { sayNode } from '../features/nodes/node-words.pure.ts'
import { ResourceCharts } from '../features/nodes/resource-charts.tsx'

const route = getRouteApi('/nodes/$id')

export function NodePage() {
  const { id } = route.useParams()
  const nodes = useQuery(nodesQuery)
  const node = nodes.data?.find((each) => each.id === id)
  // Another node is another page: nothing that was typed for the one before is left in it.
  if (node !== undefined) return <OneNode key={id} node={node} />
  return (
    <Page title="Node">
      <Loaded query={nodes} what="the node">
        {() => (
          <Empty title={`There is no node ${id}.`}>
            <p>It may have been removed.</p>
            <Link to="/nodes" className="underline">
              All nodes
            </Link>
          </Empty>
        )}
      </Loaded>
    </Page>
  )
}

function OneNode({ node }: { readonly node: NodeView }) {
  const { ask } = route.useSearch()
  const navigate = useNavigate()
  const close = useClose('ask')
  return (
    <Page title={node.name} sentence={<Sentence node={node} />} actions={<Actions node={node} />}>
      <NodeStatusMark node={node} />
      <ResourceCharts node={node} />
      <Parts node={node} />
      {isAsked(ask) && (
        <AskSheet
          node={node}
          what={ask}
          onClose={close}
          onDone={ask === 'remove' ? () => void navigate({ to: '/nodes', replace: true }) : close}
        />
      )}
    </Page>
  )
}

function Sentence({ node }: { readonly node: NodeView }) {
  return <>{sayNode(node, useNow())}</>
}

function Actions({ node }: { readonly node: NodeView }) {
  const navigate = useNavigate()
  const change = useNodeChange(node)
  const ask = (what: 'drain' | 'remove') =>
    void navigate({ to: '/nodes/$id', params: { id: node.id }, search: (before) => ({ ...before, ask: what }) })
  return (
    <>
      {node.status === 'pending' && <ApproveButton node={node} />}
      {node.draining ? (
        <Button isBusy={change.isPending} onClick={() => change.mutate('resume')}>
          Resume
        </Button>
      ) : (
        <Button onClick={() => ask('drain')}>Drain …</Button>
      )}
      <Button look="danger" onClick={() => ask('remove')}>
        Remove …
      </Button>
    </>
  )
}

function Parts({ node }: { readonly node: NodeView }) {
  const { tab = 'replicas', model, q = '' } = route.useSearch()
  const replicas = useQuery(nodeReplicasQuery(node.id)).data?.length
  const wishes = useQuery(nodeIntentsQuery(node.id)).data?.length
  const counted = (count: number | undefined) => (count === undefined || count === 0 ? {} : { count })
  const tabs = [
    { id: 'replicas', label: 'Replicas', ...counted(replicas) },
    { id: 'backends', label: 'Backends', ...counted(node.backends.length) },
    { id: 'wishes', label: 'Wishes', ...counted(wishes) },
    { id: 'labels', label: 'Labels and budget' },
    { id: 'logs', label: 'Logs' },
    { id: 'facts', label: 'Facts' },
  ]
  return (
    <>
      <Tabs label="Parts of this node" tabs={tabs} chosen={tab} />
      <div className="min-h-64">
        {tab === 'replicas' && <NodeReplicas node={node} />}
        {tab === 'backends' && <NodeBackends node={node} />}
        {tab === 'wishes' && <NodeWishes node={node} />}
        {tab === 'labels' && (
          <div className="flex flex-col gap-6">
            <NodeLabels node={node} />
            <VramBudget node={node} />
          </div>
        )}
        {tab === 'logs' && <NodeLogs key={model ?? ''} node={node} model={model} q={q} />}
        {tab === 'facts' && <NodeFacts node={node} />}
      </div>
    </>
  )
}
