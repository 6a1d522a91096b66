import { galleryRoutes, type GalleryView } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { ConfirmSheet } from '../../components/confirm-sheet.tsx'
import { useNotices } from '../../components/notices.tsx'
import { readGalleriesAgain } from './read-galleries-again.ts'

export function RemoveGallerySheet({ gallery, onClose }: { readonly gallery: GalleryView; readonly onClose: () => void }) {
  const client = useQueryClient()
  const tell = useNotices()
  const remove = useMutation({
    mutationFn: () => call(galleryRoutes.remove, { params: { name: gallery.name } }),
    onSuccess: async () => {
      tell('good', `The gallery ${gallery.name} is removed.`)
      onClose()
      await readGalleriesAgain(client)
    },
  })
  return (
    <ConfirmSheet
      title={`Remove the gallery ${gallery.name}?`}
      act="Remove the gallery"
      look="danger"
      keep="Keep it"
      refused="It is not removed."
      doing={remove}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>What it offers is no longer found by its name, and no newer builds are looked for there. What was installed from it stays.</p>
      <p className="font-mono text-soft [overflow-wrap:anywhere]">{gallery.url}</p>
    </ConfirmSheet>
  )
}
