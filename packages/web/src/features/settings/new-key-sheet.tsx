// Makes a key, and shows it the one time that it can be shown.
import { keyRoutes, type Scope } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { keysQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { CopyBlock } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { TextField } from '../../components/field.tsx'
import { scopes, scopeWords } from './scope-words.ts'

export function NewKeySheet({ onClose }: { readonly onClose: () => void }) {
  const client = useQueryClient()
  const [name, setName] = useState('')
  const [scope, setScope] = useState<Scope>('inference')
  const create = useMutation({
    mutationFn: () => call(keyRoutes.create, { body: { name: name.trim(), scope } }),
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  })
  if (create.data !== undefined) return <ShownOnce made={create.data} onClose={onClose} />
  return (
    <Dialog title="Create a key" place="sheet" onClose={onClose}>
      <form
        id="new-key"
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <TextField
          label="Name"
          hint="Whose it is, or what for: as ci, or grafana."
          required
          maxLength={255}
          value={name}
          error={create.error?.message ?? null}
          onChange={(event) => setName(event.target.value)}
        />
        <ScopeChoice scope={scope} onChoose={setScope} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={create.isPending}>
            Create the key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function ScopeChoice({ scope, onChoose }: { readonly scope: Scope; readonly onChoose: (scope: Scope) => void }) {
  return (
    <fieldset className="flex flex-col gap-1.5">
      <legend className="mb-1 font-medium">Scope</legend>
      {scopes.map((each) => (
        <label key={each} className="flex items-baseline gap-2">
          <input type="radio" name="scope" value={each} checked={each === scope} onChange={() => onChoose(each)} />
          <span>
            {each} <span className="text-soft">{scopeWords[each]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}

function ShownOnce({
  made,
  onClose,
}: {
  readonly made: { readonly name: string; readonly key: string; readonly scope: Scope }
  readonly onClose: () => void
}) {
  return (
    <Dialog
      title={`The key ${made.name}`}
      place="sheet"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <p role="status" className="text-wait">
        Copy it now: it is not shown again. Whoever loses it makes another one.
      </p>
      <CopyBlock label="the key" text={made.key} />
      <p className="text-soft">It {scopeWords[made.scope]}.</p>
    </Dialog>
  )
}
