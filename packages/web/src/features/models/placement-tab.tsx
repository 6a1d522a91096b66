// Which nodes a model could run on, and why not on the others.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ModelName, modelRoutes, type ModelView, type PlacementView, type Scheduling } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys, modelPlacementQuery } from '../../api/queries.ts'
import { useSettled } from '../../components/field.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { formatCount, listNames, plural } from '../../format.ts'
import { changeSentence, comparePlacement, type NodeChange } from './placement.pure.ts'

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

interface PlacementPreviewProps {
  readonly name: ModelName
  /** Null: nothing is changed, or what is typed is not valid yet. */
  readonly scheduling: Scheduling | null
  readonly isValid: boolean
}

export function PlacementPreview({ name, scheduling, isValid }: PlacementPreviewProps) {
  const now = useQuery(modelPlacementQuery(name))
  // As text it is the same as long as it says the same.
  const asked = useSettled(scheduling === null ? null : JSON.stringify(scheduling))
  const then = useQuery({
    queryKey: keys.placementPreview(name, asked),
    queryFn: ({ signal }) =>
      call(modelRoutes.placementPreview, { params: { name }, body: { scheduling: JSON.parse(asked ?? '{}') as Scheduling }, signal }),
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    gcTime: 0,
  })
  const isPreview = asked !== null && scheduling !== null
  const isOlder = isPreview && (then.isPlaceholderData || asked !== JSON.stringify(scheduling))
  return (
    <Section title={isPreview ? 'Placement with this' : 'Placement now'}>
      <Loaded query={isPreview ? then : now} what="where it could run">
        {(shown) => {
          const changes = comparePlacement(now.data ?? shown, shown)
          return (
            <>
              <p role="status" aria-busy={isOlder} className={`min-h-5 ${isValid && !isOlder ? '' : 'text-soft'}`}>
                {isValid
                  ? isPreview
                    ? changeSentence(changes)
                    : 'Change something to see what it would mean.'
                  : 'What is typed is not valid yet.'}
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
  <Table label="Placement preview" columns={['Node', 'Can take it', 'Why not']}>
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
