// Where a page should be and is none: what happened, and the way out.
import { Link, type ErrorComponentProps } from '@tanstack/react-router'
import { Failed } from '../components/loaded.tsx'
import { Page } from '../components/page.tsx'

export function NoSuchPage() {
  return (
    <Page title="No such page" sentence="Nothing is at this address. It may have been renamed or removed.">
      <p>
        <Link to="/" className="underline underline-offset-2">
          Go to the overview
        </Link>
      </p>
    </Page>
  )
}

export function FailedPage({ error }: ErrorComponentProps) {
  return (
    <Page title="This page failed" sentence="The rest of Muster is not concerned. If it happens again, it is a bug.">
      <Failed
        title="What the browser says:"
        error={error instanceof Error ? error : new Error(String(error))}
        onRetry={() => location.reload()}
      />
    </Page>
  )
}
