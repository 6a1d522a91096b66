import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { loginRoutes } from '@muster/protocol'
import { call } from '../api/client.ts'
import { Button } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { TextField } from '../components/field.tsx'
import { Page } from '../components/page.tsx'

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

function LoginForm() {
  const [key, setKey] = useState('')
  const login = useMutation({
    mutationFn: (given: string) => call(loginRoutes.loginByKey, { body: { key: given } }),
    // Everything anew, with the cookie: the page that was asked for.
    onSuccess: () => location.reload(),
  })
  return (
    <form
      className="flex flex-col items-start gap-2"
      onSubmit={(event) => {
        event.preventDefault()
        login.mutate(key)
      }}
    >
      <div className="w-full">
        <TextField
          label="Admin key"
          name="key"
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          required
          value={key}
          error={login.error?.message ?? null}
          onChange={(event) => {
            setKey(event.target.value)
            if (login.isError) login.reset()
          }}
        />
      </div>
      <Button type="submit" look="primary" isBusy={login.isPending || login.isSuccess}>
        Log in
      </Button>
    </form>
  )
}
