// The overview: problems, updates, traffic and models.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ModelView } from '@muster/protocol'
import { modelsQuery, nodesQuery, statsQuery } from '../api/queries.ts'
import { buttonClass } from '../components/button.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page, Section } from '../components/page.tsx'
import { Pill } from '../components/state.tsx'
import { Cell, Row, Table } from '../components/table.tsx'
import { useNow } from '../components/time.tsx'
import { UpgradesBanner } from '../features/backends/upgrades.tsx'
import { modelTones, replicasOf } from '../features/models/model-words.pure.ts'
import { AttentionList } from '../features/overview/attention-list.tsx'
import { fleetSentence } from '../features/overview/fleet-sentence.pure.ts'
import { TrafficSection } from '../features/traffic/traffic-section.tsx'
import { lastMinuteOf } from '../features/traffic/traffic.pure.ts'

export function OverviewPage() {
  const nodes = useQuery(nodesQuery)
  const models = useQuery(modelsQuery)
  const stats = useQuery(statsQuery)
  const now = useNow()
  const isLoaded = nodes.data !== undefined && models.data !== undefined && stats.data !== undefined
  return (
    <Page title="Overview" sentence={isLoaded ? fleetSentence(nodes.data, models.data, lastMinuteOf(stats.data, now)) : ''}>
      <Loaded query={nodes} what="nodes" empty={<NoNodes />}>
        {(allNodes) => (
          <>
            <Loaded query={models} what="models">
              {(all) => <AttentionList nodes={allNodes} models={all} />}
            </Loaded>
            <UpgradesBanner />
            <Loaded query={stats} what="traffic">
              {(buckets) => <TrafficSection buckets={buckets} models={models.data ?? []} />}
            </Loaded>
            <ModelSummary models={models.data ?? []} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

const NoNodes = () => (
  <Empty title="No nodes yet. Models need at least one node.">
    <p>Run the command that “Add node” shows on a machine, then approve the node here.</p>
    <Link to="/nodes" search={{ add: true }} className={buttonClass('primary')}>
      Add node
    </Link>
  </Empty>
)

const maxListed = 12

export function ModelSummary({ models }: { readonly models: readonly ModelView[] }) {
  if (models.length === 0) return null
  return (
    <Section
      title="Models"
      actions={
        <Link to="/models" className="text-soft underline hover:text-ink">
          View all
        </Link>
      }
    >
      <Table label="Models" columns={['Model', 'State', 'Replicas ready', '']}>
        {models.slice(0, maxListed).map(({ name, state, ...model }) => (
          <Row key={name}>
            <Cell className="[overflow-wrap:anywhere]">
              <Link to="/models/$name" params={{ name }} className="font-medium hover:underline">
                {name}
              </Link>
            </Cell>
            <Cell>
              <Pill tone={modelTones[state]}>{state}</Pill>
            </Cell>
            <Cell className="whitespace-nowrap">{replicasOf(model)}</Cell>
            <Cell className="text-right">
              <Link to="/playground" search={{ model: name }} aria-label={`Open ${name} in the playground`} className="underline">
                Playground
              </Link>
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  )
}
