// What needs somebody, first and with the button that solves it.
import type { ModelView, NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { operationsQuery, statusQuery } from '../../api/queries.ts'
import { Section } from '../../components/page.tsx'
import { toneText } from '../../components/state-mark.tsx'
import { useNow } from '../../components/time.tsx'
import { needsAttention, noteShort } from './needs-attention.ts'
import { RemedyButton } from './remedy-button.tsx'

const nobody: ReadonlyMap<string, number> = new Map()

export function AttentionList({ nodes, models }: { readonly nodes: readonly NodeView[]; readonly models: readonly ModelView[] }) {
  const operations = useQuery(operationsQuery('all')).data
  const status = useQuery(statusQuery).data
  const [shortSince, setShortSince] = useState(nobody)
  const now = useNow()
  const short = noteShort(shortSince, models, now)
  if (short !== shortSince) setShortSince(short)
  const all = needsAttention({ nodes, models, operations: operations ?? [], isBusOpen: status?.bus.open ?? false, shortSince: short, now })
  const isAllKnown = operations !== undefined && status !== undefined
  return (
    <Section title="Needs attention">
      {all.length === 0 && !isAllKnown ? (
        <p className="min-h-7 text-soft">Reading what was given up …</p>
      ) : all.length === 0 ? (
        <p className="min-h-7 text-good">
          <span aria-hidden>✓ </span>Nothing needs you.
        </p>
      ) : (
        <ul className="rounded-md border bg-raised">
          {all.map(({ key, tone, text, remedy }) => (
            <li key={key} className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b px-3 py-2 last:border-b-0">
              <p className="min-w-0 flex-1 basis-60 [overflow-wrap:anywhere]">
                <span aria-hidden className={toneText[tone]}>
                  {tone === 'bad' ? '✕ ' : '▲ '}
                </span>
                {text}
              </p>
              <RemedyButton remedy={remedy} />
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
