// The list of nodes.
import type { NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { nodesQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { useNow } from '../components/time.tsx'
import { useClose } from '../components/dialog.tsx'
import { AddNodeSheet } from '../features/nodes/add-node-sheet.tsx'
import { BulkBar, BulkSheet } from '../features/nodes/bulk-actions.tsx'
import { NodeActionSheet, isNodeAction } from '../features/nodes/node-actions.tsx'
import { isBulkAction, pickNodes } from '../features/nodes/node-selection.pure.ts'
import { describeNodes, filterNodes, isFiltered } from '../features/nodes/node-words.pure.ts'
import { NodeFilters, NodeTable } from '../features/nodes/node-table.tsx'

const route = getRouteApi('/nodes')

export function NodesPage() {
  const nodes = useQuery(nodesQuery)
  const { add = false, act, node: id, picked, ...filter } = route.useSearch()
  const navigate = useNavigate()
  const showAdd = () => void navigate({ to: '/nodes', search: (before) => ({ ...before, add: true }) })
  const close = useClose('add', 'act', 'node')
  const closeBulk = useClose('act', 'picked')
  const node = isNodeAction(act) ? nodes.data?.find((each) => each.id === id) : undefined
  return (
    <Page title="Nodes" sentence={nodes.data && <Sentence nodes={nodes.data} />} actions={<Button onClick={showAdd}>Add node</Button>}>
      <Loaded query={nodes} what="nodes" empty={<NoNodes onAdd={showAdd} />}>
        {(all) => {
          const shown = filterNodes(all, filter)
          return (
            <>
              <NodeFilters nodes={all} filter={filter} />
              {shown.length > 0 ? <NodeTable nodes={shown} picked={picked} /> : isFiltered(filter) && <NoMatches count={all.length} />}
              <BulkBar picked={pickNodes(picked, shown)} shown={shown.length} />
              {id === undefined && isBulkAction(act) && (
                <BulkSheet act={act} picked={pickNodes(picked, shown)} onClose={close} onDone={closeBulk} />
              )}
            </>
          )
        }}
      </Loaded>
      {add && <AddNodeSheet onClose={close} />}
      {node !== undefined && isNodeAction(act) && <NodeActionSheet node={node} act={act} onClose={close} />}
    </Page>
  )
}

function Sentence({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return <>{describeNodes(nodes, useNow())}</>
}

function NoMatches({ count }: { readonly count: number }) {
  return (
    <Empty title="No nodes match these filters.">
      <Link to="/nodes" className="underline">
        Show all {count} nodes
      </Link>
    </Empty>
  )
}

function NoNodes({ onAdd }: { readonly onAdd: () => void }) {
  return (
    <Empty title="No nodes yet.">
      <p>A node is a machine that runs models. To add one, run this command on it:</p>
      <CopyBlock label="command" text={`muster worker --join ${location.origin} --token TOKEN`} />
      <Button look="primary" onClick={onAdd}>
        Show command with token
      </Button>
    </Empty>
  )
}
