// One node: status, resources, and its tabs.
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
import { ApproveButton, NodeActionSheet, isNodeAction, useNodeChange } from '../features/nodes/node-actions.tsx'
import { isNodeModelAction } from '../features/models/model-words.pure.ts'
import { NodeModelSheet } from '../features/models/node-model-actions.tsx'
import { NodeBackends, NodeDetails, NodeReplicas, NodeIntents } from '../features/nodes/node-tabs.tsx'
import { NodeLabels, ReplicasPerModel, VramBudget } from '../features/nodes/node-settings.tsx'
import { NodeGpus } from '../features/nodes/node-gpus.tsx'
import { NodeLogs } from '../features/nodes/node-logs.tsx'
import { NodeStatusMark } from '../features/nodes/node-status.tsx'
import { describeNode } from '../features/nodes/node-words.pure.ts'
import { ResourceCharts } from '../features/nodes/resource-charts.tsx'

const route = getRouteApi('/nodes/$id')

export function NodePage() {
  const { id } = route.useParams()
  const nodes = useQuery(nodesQuery)
  const node = nodes.data?.find((each) => each.id === id)
  // The key resets all input for another node.
  if (node !== undefined) return <NodeDetail key={id} node={node} />
  return (
    <Page title="Node">
      <Loaded query={nodes} what="node">
        {() => (
          <Empty title={`Node ${id} does not exist.`}>
            <p>The node may have been removed.</p>
            <Link to="/nodes" className="underline">
              All nodes
            </Link>
          </Empty>
        )}
      </Loaded>
    </Page>
  )
}

function NodeDetail({ node }: { readonly node: NodeView }) {
  const { act, on } = route.useSearch()
  const navigate = useNavigate()
  const close = useClose('act')
  return (
    <Page title={node.name} sentence={<Sentence node={node} />} actions={<Actions node={node} />}>
      <NodeStatusMark node={node} />
      <ResourceCharts node={node} />
      <NodeGpus node={node} />
      <NodeTabs node={node} />
      {isNodeAction(act) && (
        <NodeActionSheet
          node={node}
          act={act}
          onClose={close}
          onDone={act === 'remove' ? () => void navigate({ to: '/nodes', replace: true }) : close}
        />
      )}
      {isNodeModelAction(act) && on !== undefined && <NodeModelSheet model={on} node={node} act={act} />}
    </Page>
  )
}

function Sentence({ node }: { readonly node: NodeView }) {
  return <>{describeNode(node, useNow())}</>
}

function Actions({ node }: { readonly node: NodeView }) {
  const navigate = useNavigate()
  const change = useNodeChange(node)
  const confirm = (act: 'drain' | 'remove') =>
    void navigate({ to: '/nodes/$id', params: { id: node.id }, search: (before) => ({ ...before, act }) })
  return (
    <>
      {node.status === 'pending' && <ApproveButton node={node} />}
      {node.draining ? (
        <Button isBusy={change.isPending} onClick={() => change.mutate('resume')}>
          Resume
        </Button>
      ) : (
        <Button onClick={() => confirm('drain')}>Drain…</Button>
      )}
      <Button look="danger" onClick={() => confirm('remove')}>
        Remove…
      </Button>
    </>
  )
}

function NodeTabs({ node }: { readonly node: NodeView }) {
  const { tab = 'replicas', model, q = '' } = route.useSearch()
  const replicas = useQuery(nodeReplicasQuery(node.id)).data?.length
  const intents = useQuery(nodeIntentsQuery(node.id)).data?.length
  const tabs = [
    { id: 'replicas', label: 'Replicas', count: replicas || undefined },
    { id: 'backends', label: 'Backends', count: node.backends.length || undefined },
    { id: 'intents', label: 'Pending operations', count: intents || undefined },
    { id: 'labels', label: 'Labels and budget' },
    { id: 'logs', label: 'Logs' },
    { id: 'details', label: 'Details' },
  ]
  return (
    <>
      <Tabs label="Node views" tabs={tabs} selected={tab} />
      <div className="min-h-64">
        {tab === 'replicas' && <NodeReplicas node={node} />}
        {tab === 'backends' && <NodeBackends node={node} />}
        {tab === 'intents' && <NodeIntents node={node} />}
        {tab === 'labels' && (
          <div className="flex flex-col gap-6">
            <NodeLabels node={node} />
            <VramBudget node={node} />
            <ReplicasPerModel node={node} />
          </div>
        )}
        {tab === 'logs' && <NodeLogs key={model ?? ''} node={node} model={model} q={q} />}
        {tab === 'details' && <NodeDetails node={node} />}
      </div>
    </>
  )
}
