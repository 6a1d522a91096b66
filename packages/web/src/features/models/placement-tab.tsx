// Nodes that a model can run on and why others are excluded, now and with a changed scheduling.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import {
  formatNodeMemory,
  formatReplicaMemory,
  type ModelName,
  modelRoutes,
  type ModelView,
  type PlacementView,
  type Scheduling,
} from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys, modelPlacementQuery } from '../../api/queries.ts'
import { useDebounced } from '../../components/field.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { formatCount, listNames, plural } from '../../format.ts'
import { PlaceMenu } from './node-model-actions.tsx'
import { changeSentence, comparePlacement, type NodeChange } from './placement.pure.ts'

export function PlacementTab({ model }: { readonly model: ModelView }) {
  const placement = useQuery(modelPlacementQuery(model.name))
  return (
    <Loaded
      query={placement}
      what="placement"
      isEmpty={({ nodes }) => nodes.length === 0}
      empty={
        <Empty title="No nodes yet.">
          <Link to="/nodes" search={{ add: true }} className="underline">
            Add node
          </Link>
        </Empty>
      }
    >
      {(view) => <Nodes view={view} model={model.name} />}
    </Loaded>
  )
}

function Nodes({ view, model }: { readonly view: PlacementView; readonly model: string }) {
  const count = view.nodes.filter(({ eligible }) => eligible).length
  return (
    <div className="flex flex-col gap-3">
      <p>
        {count === 0
          ? 'No node can run another replica.'
          : `${count} of ${plural(view.nodes.length, 'node')} can run another replica; the first one is preferred.`}
      </p>
      {view.memory !== undefined && <p>Memory of one replica: {formatReplicaMemory(view.memory)}.</p>}
      <Eviction view={view} />
      <Table label="Placement" columns={['Node', 'Eligibility', 'Score', 'Memory', 'Reason', '']}>
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
            <Cell>{node.memory === undefined ? '' : formatNodeMemory(node.memory)}</Cell>
            <Cell className="[overflow-wrap:anywhere]">{node.reason || node.warning}</Cell>
            <Cell>
              <PlaceMenu model={model} node={{ id: node.node_id, name: node.node_name }} />
            </Cell>
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
        ? `Making room on ${eviction.node_name}: replicas are stopping.`
        : `To make room, ${plural(eviction.replicas.length, 'replica')} of ${listNames(models)} on ${eviction.node_name} would be stopped.`}
    </p>
  )
}

interface PlacementPreviewProps {
  readonly name: ModelName
  /** Null while nothing is changed or the input is invalid. */
  readonly scheduling: Scheduling | null
  readonly isValid: boolean
}

export function PlacementPreview({ name, scheduling, isValid }: PlacementPreviewProps) {
  const now = useQuery(modelPlacementQuery(name))
  // As text, so that equal schedulings are the same key.
  const settled = useDebounced(scheduling === null ? null : JSON.stringify(scheduling))
  const then = useQuery({
    queryKey: keys.placementPreview(name, settled),
    queryFn: ({ signal }) =>
      call(modelRoutes.placementPreview, { params: { name }, body: { scheduling: JSON.parse(settled ?? '{}') as Scheduling }, signal }),
    enabled: settled !== null,
    placeholderData: keepPreviousData,
    gcTime: 0,
  })
  const isPreview = settled !== null && scheduling !== null
  const isOutdated = isPreview && (then.isPlaceholderData || settled !== JSON.stringify(scheduling))
  return (
    <Section title={isPreview ? 'Placement preview' : 'Current placement'}>
      <Loaded query={isPreview ? then : now} what="placement">
        {(view) => {
          const changes = comparePlacement(now.data ?? view, view)
          return (
            <>
              <p role="status" aria-busy={isOutdated} className={`min-h-5 ${isValid && !isOutdated ? '' : 'text-soft'}`}>
                {isValid
                  ? isPreview
                    ? changeSentence(changes)
                    : 'Change the scheduling to preview its placement.'
                  : 'Fix the errors to see a preview.'}
              </p>
              <Changes changes={changes} />
            </>
          )
        }}
      </Loaded>
    </Section>
  )
}

const marks: Readonly<Record<NodeChange['change'], { tone: Tone; sign: string; word: string }>> = {
  becomes: { tone: 'good', sign: '+', word: 'becomes eligible' },
  ceases: { tone: 'wait', sign: '−', word: 'no longer eligible' },
  stays: { tone: 'good', sign: '✓', word: 'eligible' },
  stays_out: { tone: 'idle', sign: '–', word: 'not eligible' },
}

const Changes = ({ changes }: { readonly changes: readonly NodeChange[] }) => (
  <Table label="Placement preview" columns={['Node', 'Eligibility', 'Reason']}>
    {changes.map(({ id, name, change, reason }) => (
      <Row key={id} aria-label={name}>
        <Cell className="max-w-56 [overflow-wrap:anywhere]">{name}</Cell>
        <Cell>
          <Pill tone={marks[change].tone} sign={marks[change].sign}>
            {marks[change].word}
          </Pill>
        </Cell>
        <Cell className="[overflow-wrap:anywhere]">{reason}</Cell>
      </Row>
    ))}
  </Table>
)
