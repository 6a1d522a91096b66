import { Page } from '../components/page.tsx'

export function BackendsPage() {
  return (
    <Page title="Backends">
      <span />
    </Page>
  )
}
