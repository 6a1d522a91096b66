import { loginRoutes } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { TextField } from '../../components/field.tsx'

export function LoginForm() {
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
