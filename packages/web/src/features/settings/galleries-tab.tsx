// Galleries of backends and models, in the order in which names are looked up.
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { type GalleryKind, GalleryName, galleryRoutes, type GalleryView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendGalleryQuery, galleriesQuery, keys, modelGalleryQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmSheet, Dialog, useClose } from '../../components/dialog.tsx'
import { Form, TextField } from '../../components/field.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Section } from '../../components/page.tsx'
import { Pill } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { galleryOrigin, type ReadGalleries, describeGallery } from './settings-words.pure.ts'

const titles: Readonly<Record<GalleryKind, string>> = { backend: 'Backend galleries', model: 'Model galleries' }

export function GalleriesTab() {
  const galleries = useQuery({ ...galleriesQuery, refetchOnMount: 'always' })
  const offered = {
    backend: useQuery({ ...backendGalleryQuery, refetchOnMount: 'always' }),
    model: useQuery({ ...modelGalleryQuery, refetchOnMount: 'always' }),
  }
  const { open } = useSearch({ from: '/settings' })
  const navigate = useNavigate()
  const show = (sheet: string): void => void navigate({ to: '.', search: (before) => ({ ...before, open: sheet }) })
  const close = useClose('open')
  const selected = galleries.data?.find(({ name }) => open === `edit-${name}` || open === `remove-${name}`)
  return (
    <>
      <p className="text-soft">Names are looked up in this order. Installed backends and models are kept when their gallery is removed.</p>
      {(['backend', 'model'] as const).map((kind) => (
        <Section key={kind} title={titles[kind]} actions={<Button onClick={() => show(`new-${kind}`)}>{`Add ${kind} gallery`}</Button>}>
          <Loaded
            query={galleries}
            what="galleries"
            isEmpty={(all) => all.every((gallery) => gallery.kind !== kind)}
            empty={<Empty title={`No ${kind} galleries. Add one by its URL.`} />}
          >
            {(all) => (
              <GalleryTable
                kind={kind}
                galleries={all.filter((gallery) => gallery.kind === kind)}
                read={offered[kind].data ?? null}
                onShow={show}
              />
            )}
          </Loaded>
        </Section>
      ))}
      {(open === 'new-backend' || open === 'new-model') && (
        <GallerySheet kind={open === 'new-backend' ? 'backend' : 'model'} known={galleries.data ?? []} onClose={close} />
      )}
      {selected !== undefined && open === `edit-${selected.name}` && (
        <GallerySheet kind={selected.kind} edited={selected} known={galleries.data ?? []} onClose={close} />
      )}
      {selected !== undefined && open === `remove-${selected.name}` && <RemoveGallerySheet gallery={selected} onClose={close} />}
    </>
  )
}

interface GalleryTableProps {
  readonly kind: GalleryKind
  readonly galleries: readonly GalleryView[]
  /** Null until the galleries were read. */
  readonly read: ReadGalleries | null
  readonly onShow: (sheet: string) => void
}

function GalleryTable({ kind, galleries, read, onShow }: GalleryTableProps) {
  return (
    <Table label={titles[kind]} columns={['Name', 'URL', 'Origin', 'Entries', 'State', '']}>
      {galleries.map((gallery) => {
        const state = describeGallery(gallery.name, read)
        return (
          <Row key={gallery.name}>
            <Cell className="font-medium whitespace-nowrap">{gallery.name}</Cell>
            <Cell className="min-w-52 font-mono [overflow-wrap:anywhere]">{gallery.url}</Cell>
            <Cell className="min-w-32 text-soft">{galleryOrigin[gallery.from]}</Cell>
            <Cell>{gallery.entries ?? '–'}</Cell>
            <Cell className="min-w-40">
              <Pill tone={state.tone}>{state.word}</Pill>
              {state.sentence !== null && <span className="block text-soft [overflow-wrap:anywhere]">{state.sentence}</span>}
            </Cell>
            <Cell>
              <span className="flex min-h-7 justify-end gap-2">
                {gallery.from === 'api' && (
                  <>
                    <Button aria-label={`Edit ${gallery.name}`} onClick={() => onShow(`edit-${gallery.name}`)}>
                      Edit
                    </Button>
                    <Button look="danger" aria-label={`Remove ${gallery.name}`} onClick={() => onShow(`remove-${gallery.name}`)}>
                      Remove
                    </Button>
                  </>
                )}
              </span>
            </Cell>
          </Row>
        )
      })}
    </Table>
  )
}

interface GallerySheetProps {
  readonly kind: GalleryKind
  readonly known: readonly GalleryView[]
  /** Undefined for a new gallery. */
  readonly edited?: GalleryView
  readonly onClose: () => void
}

function GallerySheet({ kind, known, edited, onClose }: GallerySheetProps) {
  const client = useQueryClient()
  const notify = useNotices()
  const [name, setName] = useState(edited?.name ?? '')
  const [url, setUrl] = useState(edited?.url ?? '')
  // PUT would silently replace the existing gallery.
  const isTaken = edited === undefined && known.some((gallery) => gallery.name === name.trim())
  const put = useMutation({
    mutationFn: () => call(galleryRoutes.put, { params: { name: name.trim() }, body: { url: url.trim(), kind } }),
    onSuccess: async (gallery) => {
      const done = `${edited === undefined ? 'Added' : 'Saved'} gallery ${gallery.name}`
      if (gallery.problem === null || gallery.problem === undefined) notify('good', done)
      else notify('bad', `${done}, which cannot be read: ${gallery.problem}`)
      onClose()
      await refreshGalleries(client)
    },
  })
  const nameError = name === '' ? null : (GalleryName.safeParse(name.trim()).error?.issues[0]?.message ?? null)
  return (
    <Dialog title={edited === undefined ? `Add ${kind} gallery` : `Edit gallery ${edited.name}`} place="sheet" onClose={onClose}>
      <Form
        className="flex flex-col gap-4"
        onSubmit={() => {
          if (!isTaken && nameError === null) put.mutate()
        }}
      >
        {edited === undefined && (
          <TextField
            label="Name"
            hint="A short name, such as internal"
            required
            maxLength={63}
            value={name}
            error={isTaken ? `A gallery named ${name.trim()} already exists.` : nameError}
            onChange={(event) => setName(event.target.value)}
          />
        )}
        <TextField
          label="URL"
          hint="https://…, github:owner/repo/path@ref, or file:///… on the controllers. Private addresses must be allowed by --allow-source."
          required
          spellCheck={false}
          className="font-mono"
          value={url}
          error={put.error?.message ?? null}
          onChange={(event) => setUrl(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={put.isPending} disabled={isTaken || nameError !== null}>
            {edited === undefined ? 'Add gallery' : 'Save'}
          </Button>
        </div>
      </Form>
    </Dialog>
  )
}

function RemoveGallerySheet({ gallery, onClose }: { readonly gallery: GalleryView; readonly onClose: () => void }) {
  const client = useQueryClient()
  const notify = useNotices()
  const remove = useMutation({
    mutationFn: () => call(galleryRoutes.remove, { params: { name: gallery.name } }),
    onSuccess: async () => {
      notify('good', `Removed gallery ${gallery.name}`)
      onClose()
      await refreshGalleries(client)
    },
  })
  return (
    <ConfirmSheet
      title={`Remove gallery ${gallery.name}?`}
      action="Remove gallery"
      look="danger"
      errorTitle="Could not remove the gallery"
      mutation={remove}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>Backends and models of this gallery can no longer be installed by name or checked for updates. Installed ones are kept.</p>
      <p className="font-mono text-soft [overflow-wrap:anywhere]">{gallery.url}</p>
    </ConfirmSheet>
  )
}

/** Controllers cache galleries for some seconds, so they are read once more after that. */
const cachedMs = 6_000

/** Reads the galleries, their offers and the updates again. */
async function refreshGalleries(client: QueryClient): Promise<void> {
  const offered = (): Promise<unknown> =>
    Promise.all([keys.gallery, keys.upgrades].map((queryKey) => client.invalidateQueries({ queryKey })))
  setTimeout(() => void offered(), cachedMs)
  await Promise.all([client.invalidateQueries({ queryKey: keys.galleries }), offered()])
}
