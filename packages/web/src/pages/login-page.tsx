// The login page: one-time link or admin key.
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { loginRoutes } from '@muster/protocol'
import { call } from '../api/client.ts'
import { Button } from '../components/button.tsx'
import { CopyBlock } from '../components/copy.tsx'
import { Form, TextField } from '../components/field.tsx'
import { Page } from '../components/page.tsx'

/** Replaces every page without a login. The address is kept and opened after the login. */
export function LoginPage() {
  return (
    <main className="mx-auto w-full max-w-xl sm:pt-[12dvh]">
      <Page title="Log in" sentence="Use a one-time link or an admin key.">
        <section aria-labelledby="by-link" className="flex flex-col gap-2 rounded-md border bg-raised p-4">
          <h2 id="by-link" className="font-semibold">
            With a link
          </h2>
          <p>Run this command on the controller’s machine and open the link it prints. It works once, within 15 minutes.</p>
          <CopyBlock label="command" text="muster login-link" />
        </section>
        <section aria-labelledby="by-key" className="flex flex-col gap-2 rounded-md border bg-raised p-4">
          <h2 id="by-key" className="font-semibold">
            With a key
          </h2>
          <p>
            Use a key with the scope admin. The first one is in <code className="font-mono">admin.key</code> in the controller’s data
            directory.
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
    mutationFn: (entered: string) => call(loginRoutes.loginByKey, { body: { key: entered } }),
    // Loads the requested page with the session cookie.
    onSuccess: () => location.reload(),
  })
  return (
    <Form className="flex flex-col items-start gap-2" onSubmit={() => login.mutate(key)}>
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
    </Form>
  )
}
