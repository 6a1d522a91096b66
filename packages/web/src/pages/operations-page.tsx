import { Page } from '../components/page.tsx'

export function OperationsPage() {
  return (
    <Page title="Operations">
      <span />
    </Page>
  )
}
