// API keys: list, create, revoke.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { keyRoutes, type KeyView, type Scope } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keysQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { CopyBlock } from '../../components/copy.tsx'
import { ConfirmSheet, Dialog, useClose } from '../../components/dialog.tsx'
import { Form, RadioGroup, TextField } from '../../components/field.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Section } from '../../components/page.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { scopeChoices, scopeWords } from './settings-words.pure.ts'

export function KeysTab() {
  // No event updates keys, so they are read each time the tab opens.
  const keys = useQuery({ ...keysQuery, refetchOnMount: 'always' })
  const { open } = useSearch({ from: '/settings' })
  const navigate = useNavigate()
  const show = (sheet: string): void => void navigate({ to: '.', search: (before) => ({ ...before, open: sheet }) })
  const close = useClose('open')
  const revoked = keys.data?.find(({ id }) => open === `revoke-${id}`)
  return (
    <Section
      title="API keys"
      actions={
        <Button look="primary" onClick={() => show('new-key')}>
          Create key
        </Button>
      }
    >
      <p className="text-soft">Send a key as “Authorization: Bearer KEY”. Only hashes are stored.</p>
      <Loaded query={keys} what="keys">
        {(all) => <KeyTable keys={all} onRevoke={(key) => show(`revoke-${key.id}`)} />}
      </Loaded>
      {open === 'new-key' && <NewKeySheet onClose={close} />}
      {revoked !== undefined && <RevokeKeySheet key={revoked.id} revoked={revoked} onClose={close} />}
    </Section>
  )
}

function KeyTable({ keys, onRevoke }: { readonly keys: readonly KeyView[]; readonly onRevoke: (key: KeyView) => void }) {
  return (
    <Table label="API keys" columns={['Name', 'Scope', 'Created', 'Last used', '']}>
      {keys.map((key) => (
        <Row key={key.id}>
          <Cell className="min-w-28 font-medium [overflow-wrap:anywhere]">{key.name}</Cell>
          <Cell className="min-w-40">
            {key.scope}
            <span className="block text-soft">{scopeWords[key.scope]}</span>
          </Cell>
          <Cell>
            <When at={key.created_at} />
          </Cell>
          <Cell>{key.last_used_at === null ? <span className="text-soft">never</span> : <When at={key.last_used_at} />}</Cell>
          <Cell className="text-right">
            <Button look="danger" aria-label={`Revoke ${key.name}`} onClick={() => onRevoke(key)}>
              Revoke
            </Button>
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

function NewKeySheet({ onClose }: { readonly onClose: () => void }) {
  const client = useQueryClient()
  const [name, setName] = useState('')
  const [scope, setScope] = useState<Scope>('inference')
  const create = useMutation({
    mutationFn: () => call(keyRoutes.create, { body: { name: name.trim(), scope } }),
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  })
  if (create.data !== undefined) return <CreatedKey created={{ ...create.data, key: create.data.key ?? '' }} onClose={onClose} />
  return (
    <Dialog title="Create key" place="sheet" onClose={onClose} isKept={create.isPending}>
      <Form id="new-key" className="flex flex-col gap-4" onSubmit={() => create.mutate()}>
        <TextField
          label="Name"
          hint="The program or person that uses the key, such as ci or grafana"
          required
          maxLength={255}
          value={name}
          error={create.error?.message ?? null}
          onChange={(event) => setName(event.target.value)}
        />
        <RadioGroup legend="Scope" choices={scopeChoices} chosen={scope} onSelect={setScope} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose} disabled={create.isPending}>
            Cancel
          </Button>
          <Button type="submit" look="primary" isBusy={create.isPending}>
            Create key
          </Button>
        </div>
      </Form>
    </Dialog>
  )
}

type NewKey = Readonly<{ name: string; key: string; scope: Scope }>

function CreatedKey({ created, onClose }: { readonly created: NewKey; readonly onClose: () => void }) {
  return (
    <Dialog
      title={`Key ${created.name}`}
      place="sheet"
      onClose={onClose}
      isKept
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <p role="status" className="text-wait">
        Copy the key now. It is not shown again.
      </p>
      <CopyBlock label="key" text={created.key} />
      <p className="text-soft">This key {scopeWords[created.scope]}.</p>
    </Dialog>
  )
}

function RevokeKeySheet({ revoked, onClose }: { readonly revoked: KeyView; readonly onClose: () => void }) {
  const client = useQueryClient()
  const notify = useNotices()
  const revoke = useMutation({
    mutationFn: () => call(keyRoutes.remove, { params: { id: revoked.id } }),
    onSuccess: async () => {
      notify('good', `Revoked key ${revoked.name}`)
      onClose()
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
  })
  return (
    <ConfirmSheet
      title={`Revoke key ${revoked.name}?`}
      action="Revoke key"
      look="danger"
      errorTitle="Could not revoke the key"
      mutation={revoke}
      onConfirm={() => revoke.mutate()}
      onClose={onClose}
    >
      <p>
        Requests with this key are rejected on every controller within two seconds
        {revoked.scope === 'admin' && ', and browsers that logged in with it are logged out'}. This cannot be undone.
      </p>
      <p className="text-soft">
        {revoked.last_used_at === null ? (
          'Never used.'
        ) : (
          <>
            Last used <When at={revoked.last_used_at} />.
          </>
        )}
      </p>
    </ConfirmSheet>
  )
}
