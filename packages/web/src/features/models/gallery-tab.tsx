// Models that the galleries offer.
import type { OfferedModel } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { modelGalleryQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { CopyBlock } from '../../components/copy.tsx'
import { Empty, Loaded, Problems } from '../../components/loaded.tsx'
import { Pill } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural, searchFor } from '../../format.ts'
import { leftOutLines } from '../settings/settings-words.pure.ts'
import { useModelAction } from './model-actions.tsx'

export function GalleryTab({ q }: { readonly q: string }) {
  const gallery = useQuery(modelGalleryQuery)
  return (
    <Loaded query={gallery} what="galleries">
      {({ models, problems, left_out: leftOut }) => (
        <>
          <Problems title="Some galleries could not be read" problems={problems.map((each) => `${each.gallery}: ${each.message}`)} />
          <Problems title="Some entries could not be read" problems={leftOutLines(leftOut)} />
          <Offers offers={searchOffers(models, q)} isFiltered={models.length > 0} />
        </>
      )}
    </Loaded>
  )
}

function searchOffers(offers: readonly OfferedModel[], q: string): readonly OfferedModel[] {
  const isFound = searchFor(q)
  return offers.filter(({ name, description, backend, tags }) => isFound(name, description, backend, ...tags))
}

function Offers({ offers, isFiltered }: { readonly offers: readonly OfferedModel[]; readonly isFiltered: boolean }) {
  if (offers.length === 0 && isFiltered) return <Empty title="No models match this search." />
  if (offers.length === 0)
    return (
      <Empty title="No models in the galleries.">
        <p>Add a gallery (a YAML list of models at any URL) in Settings, or run:</p>
        <CopyBlock label="command" text="muster galleries add NAME URL --kind model" />
      </Empty>
    )
  return (
    <Table label="Available models" columns={['Name', 'Description', 'Backend', 'Gallery', '']}>
      {offers.map((offer) => (
        <Offer key={offer.name} offer={offer} />
      ))}
    </Table>
  )
}

function Offer({ offer }: { readonly offer: OfferedModel }) {
  const { name, description, license, tags, backend, gallery, installed, variants } = offer
  const install = useModelAction('install')
  return (
    <Row aria-label={name} className="lazy-row">
      <Cell className="max-w-72 min-w-36 font-medium [overflow-wrap:anywhere]">{name}</Cell>
      <Cell className="min-w-56 [overflow-wrap:anywhere]">
        <p className="line-clamp-3" title={description}>
          {description}
        </p>
        <p className="text-soft">{[license, ...tags.slice(0, 8)].filter((text) => text !== '').join(' · ')}</p>
        {variants.length > 0 && (
          <details className="text-[13px] text-soft">
            <summary className="w-fit hover:text-ink">{plural(variants.length, 'variant')}</summary>
            <ul className="pl-4">
              {variants.map(({ name: build, chosen, reason }) => (
                <li key={build} className="[overflow-wrap:anywhere]">
                  {`${build}${chosen ? ' (installed by default)' : ''}: ${reason}`}
                </li>
              ))}
            </ul>
          </details>
        )}
      </Cell>
      <Cell>{backend}</Cell>
      <Cell className="[overflow-wrap:anywhere]">{gallery}</Cell>
      <Cell className="text-right">
        {installed ? (
          <Link to="/models/$name" params={{ name }} aria-label={`${name} is installed`} className="hover:underline">
            <Pill tone="good">installed</Pill>
          </Link>
        ) : (
          <Button aria-label={`Install ${name}`} isBusy={install.isPending} onClick={() => install.mutate(name)}>
            Install
          </Button>
        )}
      </Cell>
    </Row>
  )
}
