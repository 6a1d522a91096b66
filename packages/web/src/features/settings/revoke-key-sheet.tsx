import { keyRoutes, type KeyView } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { keysQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { When } from '../../components/time.tsx'

export function RevokeKeySheet({ revoked, onClose }: { readonly revoked: KeyView; readonly onClose: () => void }) {
  const client = useQueryClient()
  const tell = useNotices()
  const revoke = useMutation({
    mutationFn: () => call(keyRoutes.remove, { params: { id: revoked.id } }),
    onSuccess: async () => {
      tell('good', `The key ${revoked.name} is revoked.`)
      onClose()
      await client.invalidateQueries({ queryKey: keysQuery.queryKey })
    },
  })
  return (
    <Dialog
      title={`Revoke the key ${revoked.name}?`}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" isBusy={revoke.isPending} onClick={() => revoke.mutate()}>
            Revoke the key
          </Button>
        </>
      }
    >
      <p>
        Within two seconds whoever uses it is refused, on every controller
        {revoked.scope === 'admin' && ', and browsers that logged in with it are logged out'}. It can’t be taken back.
      </p>
      <p className="text-soft">
        It was{' '}
        {revoked.last_used_at === null ? (
          'never used'
        ) : (
          <>
            last used <When at={revoked.last_used_at} />
          </>
        )}
        .
      </p>
      {revoke.error !== null && <Failed title="It is not revoked." error={revoke.error} />}
    </Dialog>
  )
}
