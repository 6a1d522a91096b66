import { keyRoutes, type KeyView } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { keysQuery } from '../../api/queries.ts'
import { ConfirmSheet } from '../../components/confirm-sheet.tsx'
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
    <ConfirmSheet
      title={`Revoke the key ${revoked.name}?`}
      act="Revoke the key"
      look="danger"
      keep="Keep it"
      refused="It is not revoked."
      doing={revoke}
      onConfirm={() => revoke.mutate()}
      onClose={onClose}
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
    </ConfirmSheet>
  )
}
