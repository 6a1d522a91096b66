import { Page } from '../components/page.tsx'

export function NodesPage() {
  return (
    <Page title="Nodes">
      <span />
    </Page>
  )
}
