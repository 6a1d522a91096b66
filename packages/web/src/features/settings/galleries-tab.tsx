// Where backends and models are offered, in the order in which a name is looked up.
import type { GalleryKind, GalleryView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { backendGalleryQuery, galleriesQuery, modelGalleryQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { useClose } from '../../components/use-close.ts'
import { GallerySheet } from './gallery-sheet.tsx'
import { galleryOrigin, galleryState, type GalleryProblem } from './gallery-words.ts'
import { RemoveGallerySheet } from './remove-gallery-sheet.tsx'

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
