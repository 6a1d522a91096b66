// Where backends and models are offered, in the order in which a name is looked up.
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { type GalleryKind, GalleryName, galleryRoutes, type GalleryView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendGalleryQuery, galleriesQuery, keys, modelGalleryQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ConfirmSheet, Dialog, useClose } from '../../components/dialog.tsx'
import { TextField } from '../../components/field.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Section } from '../../components/page.tsx'
import { Pill } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { galleryOrigin, type GalleryProblem, galleryState } from './settings-words.pure.ts'

const titles: Readonly<Record<GalleryKind, string>> = { backend: 'Galleries of backends', model: 'Galleries of models' }

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
  const shown = galleries.data?.find(({ name }) => open === `change-${name}` || open === `remove-${name}`)
  return (
    <>
      <p className="text-soft">A name is looked up in these, from the first to the last. What was installed stays when its gallery goes.</p>
      {(['backend', 'model'] as const).map((kind) => (
        <Section
          key={kind}
          title={titles[kind]}
          actions={
            <Button onClick={() => show(`new-${kind}`)} aria-label={`Add a gallery of ${kind}s`}>
              Add a gallery
            </Button>
          }
        >
          <Loaded
            query={galleries}
            what="the galleries"
            isEmpty={(all) => all.every((gallery) => gallery.kind !== kind)}
            empty={<Empty title={`There is no gallery of ${kind}s. Add one by its address.`} />}
          >
            {(all) => (
              <GalleryTable
                kind={kind}
                galleries={all.filter((gallery) => gallery.kind === kind)}
                problems={offered[kind].data?.problems ?? null}
                onShow={show}
              />
            )}
          </Loaded>
        </Section>
      ))}
      {(open === 'new-backend' || open === 'new-model') && (
        <GallerySheet kind={open === 'new-backend' ? 'backend' : 'model'} known={galleries.data ?? []} onClose={close} />
      )}
      {shown !== undefined && open === `change-${shown.name}` && (
        <GallerySheet kind={shown.kind} changed={shown} known={galleries.data ?? []} onClose={close} />
      )}
      {shown !== undefined && open === `remove-${shown.name}` && <RemoveGallerySheet gallery={shown} onClose={close} />}
    </>
  )
}

interface GalleryTableProps {
  readonly kind: GalleryKind
  readonly galleries: readonly GalleryView[]
  /** Null until it is known. */
  readonly problems: readonly GalleryProblem[] | null
  readonly onShow: (sheet: string) => void
}

function GalleryTable({ kind, galleries, problems, onShow }: GalleryTableProps) {
  return (
    <Table label={titles[kind]} columns={['Name', 'Address', 'From', 'State', '']}>
      {galleries.map((gallery) => {
        const state = galleryState(gallery.name, problems)
        return (
          <Row key={gallery.name}>
            <Cell className="font-medium whitespace-nowrap">{gallery.name}</Cell>
            <Cell className="min-w-52 font-mono [overflow-wrap:anywhere]">{gallery.url}</Cell>
            <Cell className="min-w-32 text-soft">{galleryOrigin[gallery.from]}</Cell>
            <Cell className="min-w-40">
              <Pill tone={state.tone}>{state.word}</Pill>
              {state.sentence !== null && <span className="block text-soft [overflow-wrap:anywhere]">{state.sentence}</span>}
            </Cell>
            <Cell>
              <span className="flex min-h-7 justify-end gap-2">
                {gallery.from === 'api' && (
                  <>
                    <Button aria-label={`Change ${gallery.name}`} onClick={() => onShow(`change-${gallery.name}`)}>
                      Change
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
  /** Without it, a new one. */
  readonly changed?: GalleryView
  readonly onClose: () => void
}

function GallerySheet({ kind, known, changed, onClose }: GallerySheetProps) {
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

function RemoveGallerySheet({ gallery, onClose }: { readonly gallery: GalleryView; readonly onClose: () => void }) {
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

/** A controller answers from what it has read for some seconds: only then does it tell of a new gallery. */
const sharedMs = 6_000

/** And what they offer, and what is newer there. */
async function readGalleriesAgain(client: QueryClient): Promise<void> {
  const offered = (): Promise<unknown> =>
    Promise.all([keys.gallery, keys.upgrades].map((queryKey) => client.invalidateQueries({ queryKey })))
  setTimeout(() => void offered(), sharedMs)
  await Promise.all([client.invalidateQueries({ queryKey: keys.galleries }), offered()])
}
