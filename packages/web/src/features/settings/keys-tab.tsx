// Who may call the API: the keys there are, without their secrets.
import type { KeyView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { keysQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { useClose } from '../../components/use-close.ts'
import { NewKeySheet } from './new-key-sheet.tsx'
import { RevokeKeySheet } from './revoke-key-sheet.tsx'
import { scopeWords } from './scope-words.ts'

export function KeysTab() {
  // No event tells of keys, so they are read anew each time somebody comes here.
  const keys = useQuery({ ...keysQuery, refetchOnMount: 'always' })
  const { open } = useSearch({ from: '/settings' })
  const navigate = useNavigate()
  const show = (sheet: string): void => void navigate({ to: '.', search: (before) => ({ ...before, open: sheet }) })
  const close = useClose('open')
  const revoked = keys.data?.find(({ id }) => open === `revoke-${id}`)
  return (
    <Section
      title="Keys"
      actions={
        <Button look="primary" onClick={() => show('new-key')}>
          Create a key
        </Button>
      }
    >
      <p className="text-soft">Programs send them as “Authorization: Bearer KEY”. Only their hashes are stored.</p>
      <Loaded query={keys} what="the keys">
        {(all) => <KeyTable keys={all} onRevoke={(key) => show(`revoke-${key.id}`)} />}
      </Loaded>
      {open === 'new-key' && <NewKeySheet onClose={close} />}
      {revoked !== undefined && <RevokeKeySheet key={revoked.id} revoked={revoked} onClose={close} />}
    </Section>
  )
}

function KeyTable({ keys, onRevoke }: { readonly keys: readonly KeyView[]; readonly onRevoke: (key: KeyView) => void }) {
  return (
    <Table label="Keys" columns={['Name', 'Scope', 'Created', 'Last used', '']}>
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
