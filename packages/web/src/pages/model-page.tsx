import { Page } from '../components/page.tsx'

export function ModelPage() {
  return (
    <Page title="Model">
      <span />
    </Page>
  )
}
