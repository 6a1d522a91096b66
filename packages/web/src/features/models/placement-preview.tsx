// What another scheduling would mean: which nodes become eligible, or no longer are.
import { modelRoutes, type ModelName, type Scheduling } from '@muster/protocol'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { keys } from '../../api/keys.ts'
import { modelPlacementQuery } from '../../api/queries.ts'
import { Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Pill, type Tone } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { useSettled } from '../../components/use-settled.ts'
import { changeSentence, comparePlacement, type NodeChange } from './compare-placement.ts'

export interface PlacementPreviewProps {
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
