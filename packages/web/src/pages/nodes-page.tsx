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
import { AskSheet, isAsked } from '../features/nodes/node-actions.tsx'
import { filterNodes, isFiltered } from '../features/nodes/node-filter.pure.ts'
import { NodeFilters, NodeTable } from '../features/nodes/node-table.tsx'
import { sayFleet } from '../features/nodes/node-words.pure.ts'

const route = getRouteApi('/nodes')

export function NodesPage() {
  const nodes = useQuery(nodesQuery)
  const { add = false, ask, on, ...filter } = route.useSearch()
  const navigate = useNavigate()
  const showAdd = () => void navigate({ to: '/nodes', search: (before) => ({ ...before, add: true }) })
  const close = useClose('add', 'ask', 'on')
  const asked = isAsked(ask) ? nodes.data?.find(({ id }) => id === on) : undefined
  return (
    <Page title="Nodes" sentence={nodes.data && <Sentence nodes={nodes.data} />} actions={<Button onClick={showAdd}>Add a node</Button>}>
      <Loaded query={nodes} what="the nodes" empty={<NoNodes onAdd={showAdd} />}>
        {(all) => {
          const shown = filterNodes(all, filter)
          return (
            <>
              <NodeFilters nodes={all} filter={filter} />
              {shown.length > 0 ? <NodeTable nodes={shown} /> : isFiltered(filter) && <NoneFits count={all.length} />}
            </>
          )
        }}
      </Loaded>
      {add && <AddNodeSheet onClose={close} />}
      {asked !== undefined && isAsked(ask) && <AskSheet node={asked} what={ask} onClose={close} />}
    </Page>
  )
}

function Sentence({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return <>{sayFleet(nodes, useNow())}</>
}

function NoneFits({ count }: { readonly count: number }) {
  return (
    <Empty title="No node is like that.">
      <Link to="/nodes" className="underline">
        Show all {count}
      </Link>
    </Empty>
  )
}

function NoNodes({ onAdd }: { readonly onAdd: () => void }) {
  return (
    <Empty title="There are no nodes yet.">
      <p>A node is a machine that runs models. On the machine to add, run</p>
      <CopyBlock label="the command" text={`muster worker --join ${location.origin} --token TOKEN`} />
      <Button look="primary" onClick={onAdd}>
        Add a node: the command with its token
      </Button>
    </Empty>
  )
}
