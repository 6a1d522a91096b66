// Backends that the galleries offer, and the nodes that each one fits.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { OfferedBackend } from '@muster/protocol'
import { backendGalleryQuery } from '../../api/queries.ts'
import { Check, SearchField } from '../../components/field.tsx'
import { Empty, Loaded, Problems } from '../../components/loaded.tsx'
import { Pill } from '../../components/state.tsx'
import { plural } from '../../format.ts'
import { leftOutLines } from '../settings/settings-words.pure.ts'
import { fitWords, misfits, searchOffers } from './backend-words.pure.ts'
import { ChangeLink } from './change-sheet.tsx'

export function GalleryList({ q, isDevelopment }: { readonly q: string; readonly isDevelopment: boolean }) {
  const navigate = useNavigate()
  const gallery = useQuery(backendGalleryQuery)
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-start gap-3">
        <BackendSearch label="Search gallery" q={q} />
        <ChangeLink act="install">Install from URI</ChangeLink>
      </div>
      <Loaded query={gallery} what="galleries">
        {({ backends, problems, left_out: leftOut }) => (
          <>
            <Problems title="Some galleries could not be read" problems={problems.map((each) => `${each.gallery}: ${each.message}`)} />
            <Problems title="Some entries could not be read" problems={leftOutLines(leftOut)} />
            {backends.some(({ channel }) => channel === 'development') && (
              <Check
                label="Show development builds"
                isChecked={isDevelopment}
                onChange={(isShown) =>
                  void navigate({ to: '/backends', replace: true, search: (before) => ({ ...before, dev: isShown ? 'yes' : undefined }) })
                }
              />
            )}
            <ChannelOffers backends={isDevelopment ? backends : backends.filter(({ channel }) => channel === 'release')} q={q} />
          </>
        )}
      </Loaded>
    </div>
  )
}

function ChannelOffers({ backends, q }: { readonly backends: readonly OfferedBackend[]; readonly q: string }) {
  return <Offers offers={searchOffers(backends, q)} total={backends.length} q={q} />
}

function Offers({ offers, total, q }: { readonly offers: readonly OfferedBackend[]; readonly total: number; readonly q: string }) {
  if (total === 0)
    return (
      <Empty title="No backends in the galleries.">
        <p className="text-soft">Add a gallery in Settings, or install from a URI.</p>
      </Empty>
    )
  return (
    <>
      <p role="status" className="text-[13px] text-soft [overflow-wrap:anywhere]">
        {q.trim() === '' ? `${plural(total, 'backend')} available` : `${offers.length} of ${plural(total, 'backend')} match “${q.trim()}”`}
      </p>
      {offers.length > 0 && (
        <ul aria-label="Available backends" className="flex flex-col divide-y rounded-md border bg-raised">
          {offers.map((offer) => (
            <li key={offer.name} data-row="" className="lazy-row px-3 py-2.5">
              <Offer offer={offer} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Offer({ offer }: { readonly offer: OfferedBackend }) {
  const { name, version, license, tags, description, gallery, nodes } = offer
  const reasons = misfits(nodes)
  return (
    <article aria-label={name} className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
      <div className="flex min-w-0 flex-1 basis-72 flex-col gap-0.5">
        <div className="flex flex-wrap items-baseline gap-x-3">
          <h2 className="font-semibold [overflow-wrap:anywhere]">{name}</h2>
          {version !== '' && <span className="[overflow-wrap:anywhere]">{version}</span>}
          {offer.installed && <Pill tone="good">installed</Pill>}
        </div>
        {description !== '' && <p className="max-w-[80ch] [overflow-wrap:anywhere] whitespace-pre-line">{description}</p>}
        <p className="text-[13px] text-soft [overflow-wrap:anywhere]">
          {[
            ...(offer.is_meta ? ['meta backend: selects a build per node'] : []),
            ...(license === '' ? [] : [license]),
            `from ${gallery}`,
            ...tags,
          ].join(' · ')}
        </p>
        <Fits nodes={nodes} reasons={reasons} />
      </div>
      <ChangeLink act="install" backend={name} label={`Install ${name}`}>
        Install
      </ChangeLink>
    </article>
  )
}

function Fits({ nodes, reasons }: { readonly nodes: OfferedBackend['nodes']; readonly reasons: readonly string[] }) {
  if (reasons.length === 0) return <p className="text-[13px] text-soft">{fitWords(nodes)}</p>
  return (
    <details className="text-[13px] text-soft">
      <summary className="w-fit hover:text-ink">{fitWords(nodes)}</summary>
      <ul className="pl-4">
        {reasons.map((reason) => (
          <li key={reason} className="[overflow-wrap:anywhere]">
            {reason}
          </li>
        ))}
      </ul>
    </details>
  )
}

export function BackendSearch({ label, q }: { readonly label: string; readonly q: string }) {
  const navigate = useNavigate()
  return (
    <SearchField
      label={label}
      text={q}
      onType={(typed) => void navigate({ to: '/backends', replace: true, search: (before) => ({ ...before, q: typed }) })}
    />
  )
}
