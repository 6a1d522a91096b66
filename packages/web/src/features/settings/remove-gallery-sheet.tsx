import { galleryRoutes, type GalleryView } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed } from '../../components/loaded.tsx'
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
    <Dialog
      title={`Remove the gallery ${gallery.name}?`}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" isBusy={remove.isPending} onClick={() => remove.mutate()}>
            Remove the gallery
          </Button>
        </>
      }
    >
      <p>What it offers is no longer found by its name, and no newer builds are looked for there. What was installed from it stays.</p>
      <p className="font-mono text-soft [overflow-wrap:anywhere]">{gallery.url}</p>
      {remove.error !== null && <Failed title="It is not removed." error={remove.error} />}
    </Dialog>
  )
}
