import { CopyBlock } from '../components/copy.tsx'
import { Page } from '../components/page.tsx'
import { LoginForm } from '../features/access/login-form.tsx'

/** Shown in place of everything else to whoever is not logged in. The address stays: it is what is shown afterwards. */
export function LoginPage() {
  return (
    <main className="mx-auto w-full max-w-xl sm:pt-[12dvh]">
      <Page title="Log in" sentence="You are not logged in. There are two ways in.">
        <section aria-labelledby="by-link" className="flex flex-col gap-2 rounded-md border bg-raised p-4">
          <h2 id="by-link" className="font-semibold">
            With a link
          </h2>
          <p>Run this on the controller’s machine and open what it prints. It works once, for 15 minutes.</p>
          <CopyBlock label="the command" text="muster login-link" />
        </section>
        <section aria-labelledby="by-key" className="flex flex-col gap-2 rounded-md border bg-raised p-4">
          <h2 id="by-key" className="font-semibold">
            With a key
          </h2>
          <p>
            One that may change everything. The first is in <code className="font-mono">admin.key</code> in the data directory of the
            controller.
          </p>
          <LoginForm />
        </section>
      </Page>
    </main>
  )
}
