import { CopyBlock } from '../components/copy.tsx'
import { Page } from '../components/page.tsx'

/** Shown in place of everything else to whoever is not logged in. */
export function LoginPage() {
  return (
    <main>
      <Page title="Log in" sentence="You are not logged in.">
        <p>Run this on the controller’s machine and open the link that it prints:</p>
        <CopyBlock label="the command" text="muster login-link" />
      </Page>
    </main>
  )
}
