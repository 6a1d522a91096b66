import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { modelsQuery, nodesQuery, statsQuery } from '../api/queries.ts'
import { buttonClass } from '../components/button.tsx'
import { Empty, Loaded } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'
import { useNow } from '../components/time.tsx'
import { UpgradesBanner } from '../features/backends/upgrades-banner.tsx'
import { AttentionList } from '../features/overview/attention-list.tsx'
import { fleetSentence } from '../features/overview/fleet-sentence.ts'
import { ModelSummary } from '../features/overview/model-summary.tsx'
import { TrafficSection } from '../features/traffic/traffic-section.tsx'
import { lastMinuteOf } from '../features/traffic/traffic.ts'

export function OverviewPage() {
  const nodes = useQuery(nodesQuery)
  const models = useQuery(modelsQuery)
  const stats = useQuery(statsQuery)
  const now = useNow()
  const isKnown = nodes.data !== undefined && models.data !== undefined && stats.data !== undefined
  return (
    <Page title="Overview" sentence={isKnown ? fleetSentence(nodes.data, models.data, lastMinuteOf(stats.data, now)) : ''}>
      <Loaded query={nodes} what="the nodes" empty={<NoNodes />}>
        {(known) => (
          <>
            <Loaded query={models} what="the models">
              {(all) => <AttentionList nodes={known} models={all} />}
            </Loaded>
            <UpgradesBanner />
            <Loaded query={stats} what="the traffic">
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
  <Empty title="There is no node yet. Nothing can run until a machine joins.">
    <p>On the machine that shall do the work, run what “Add a node” shows; then approve it here.</p>
    <Link to="/nodes" search={{ add: true }} className={buttonClass('primary')}>
      Add a node
    </Link>
  </Empty>
)
