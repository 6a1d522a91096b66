// Adds a gallery, or gives one another address.
import { GalleryName, galleryRoutes, type GalleryKind, type GalleryView } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { TextField } from '../../components/field.tsx'
import { useNotices } from '../../components/notices.tsx'
import { readGalleriesAgain } from './read-galleries-again.ts'

export interface GallerySheetProps {
  readonly kind: GalleryKind
  readonly known: readonly GalleryView[]
  /** Without it, a new one. */
  readonly changed?: GalleryView
  readonly onClose: () => void
}

export function GallerySheet({ kind, known, changed, onClose }: GallerySheetProps) {
  const client = useQueryClient()
  const tell = useNotices()
  const [name, setName] = useState(changed?.name ?? '')
  const [url, setUrl] = useState(changed?.url ?? '')
  // PUT would silently give it another address.
  const isTaken = changed === undefined && known.some((gallery) => gallery.name === name.trim())
  const put = useMutation({
    mutationFn: () => call(galleryRoutes.put, { params: { name: name.trim() }, body: { url: url.trim(), kind } }),
    onSuccess: async (gallery) => {
      tell('good', `The gallery ${gallery.name} is ${changed === undefined ? 'added' : 'changed'}.`)
      onClose()
      await readGalleriesAgain(client)
    },
  })
  const wrongName = name === '' ? null : (GalleryName.safeParse(name.trim()).error?.issues[0]?.message ?? null)
  return (
    <Dialog
      title={changed === undefined ? `Add a gallery of ${kind}s` : `Change the gallery ${changed.name}`}
      place="sheet"
      onClose={onClose}
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (!isTaken && wrongName === null) put.mutate()
        }}
      >
        {changed === undefined && (
          <TextField
            label="Name"
            hint="How it is called here, as ours."
            required
            maxLength={63}
            value={name}
            error={isTaken ? `There is a gallery ${name.trim()} already.` : wrongName}
            onChange={(event) => setName(event.target.value)}
          />
        )}
        <TextField
          label="Address"
          hint="https://…, github:owner/repo/path@ref, or file:///… on the controllers’ machines. Private addresses have to be allowed by --allow-source."
          required
          spellCheck={false}
          className="font-mono"
          value={url}
          error={put.error?.message ?? null}
          onChange={(event) => setUrl(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={put.isPending} disabled={isTaken || wrongName !== null}>
            {changed === undefined ? 'Add the gallery' : 'Change the address'}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
