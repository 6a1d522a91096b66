import { useQuery } from '@tanstack/react-query'
import { backendsQuery, upgradesQuery } from '../api/queries.ts'
import { Page } from '../components/page.tsx'
import { pageSentence } from '../features/backends/sentences.ts'
import { UpgradesBanner } from '../features/backends/upgrades-banner.tsx'

export function BackendsPage() {
  const backends = useQuery(backendsQuery)
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  return (
    <Page title="Backends" sentence={backends.data && pageSentence(backends.data, upgrades)}>
      <UpgradesBanner />
    </Page>
  )
}
