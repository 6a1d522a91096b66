import { Page } from '../components/page.tsx'

export function NewModelPage() {
  return (
    <Page title="NewModel">
      <span />
    </Page>
  )
}
