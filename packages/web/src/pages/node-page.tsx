import { Page } from '../components/page.tsx'

export function NodePage() {
  return (
    <Page title="Node">
      <span />
    </Page>
  )
}
