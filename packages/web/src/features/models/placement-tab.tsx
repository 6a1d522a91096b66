// Which nodes a model could run on, and why not on the others.
import type { ModelView, PlacementView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { modelPlacementQuery } from '../../api/queries.ts'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { formatCount, listNames, plural } from '../../format/amounts.ts'

export function PlacementTab({ model }: { readonly model: ModelView }) {
  const placement = useQuery(modelPlacementQuery(model.name))
  return (
    <Loaded
      query={placement}
      what="where it could run"
      isEmpty={({ nodes }) => nodes.length === 0}
      empty={
        <Empty title="There is no node yet.">
          <Link to="/nodes" search={{ add: true }} className="underline">
            Add a node
          </Link>
        </Empty>
      }
    >
      {(view) => <Nodes view={view} />}
    </Loaded>
  )
}

function Nodes({ view }: { readonly view: PlacementView }) {
  const count = view.nodes.filter(({ eligible }) => eligible).length
  return (
    <div className="flex flex-col gap-3">
      <p>
        {count === 0
          ? `None of ${plural(view.nodes.length, 'node')} can take one more replica.`
          : `${count} of ${plural(view.nodes.length, 'node')} can take one more replica; the first is chosen.`}
      </p>
      <Eviction view={view} />
      <Table label="Placement" columns={['Node', 'Can take it', 'Score', 'Why not']}>
        {view.nodes.map((node) => (
          <Row key={node.node_id} aria-label={node.node_name}>
            <Cell className="max-w-72 [overflow-wrap:anywhere]">
              <Link to="/nodes/$id" params={{ id: node.node_id }} className="font-medium hover:underline">
                {node.node_name}
              </Link>
            </Cell>
            <Cell>
              <Pill tone={node.eligible ? 'good' : 'idle'} sign={node.eligible ? '✓' : '–'}>
                {node.eligible ? 'eligible' : (node.excluded_by?.replaceAll('_', ' ') ?? 'not eligible')}
              </Pill>
            </Cell>
            <Cell>{node.eligible ? formatCount(node.score) : ''}</Cell>
            <Cell className="[overflow-wrap:anywhere]">{node.reason}</Cell>
          </Row>
        ))}
      </Table>
    </div>
  )
}

function Eviction({ view: { eviction } }: { readonly view: PlacementView }) {
  if (eviction === null || eviction === undefined) return null
  const models = [...new Set(eviction.replicas.map(({ model }) => model))]
  return (
    <p className="rounded-md border border-wait p-3 [overflow-wrap:anywhere]">
      {models.length === 0
        ? `Room is being made on ${eviction.node_name}: replicas there are ending.`
        : `To make room, ${plural(eviction.replicas.length, 'replica')} of ${listNames(models)} on ${eviction.node_name} would be ended.`}
    </p>
  )
}
