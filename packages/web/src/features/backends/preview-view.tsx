// What would happen on which node.
import type { UseQueryResult } from '@tanstack/react-query'
import { Failed } from '../../components/loaded.tsx'
import { Pill, type Tone } from '../../components/state-mark.tsx'
import { formatBytes } from '../../format/amounts.ts'
import { fateTitle, previewSentence, type Fate, type PlannedNode, type Preview, type WishKind } from './preview.ts'

const tones: Readonly<Record<Fate, Tone>> = { now: 'work', there: 'good', later: 'wait', skipped: 'idle' }
const fates = ['now', 'later', 'there', 'skipped'] as const

export interface PreviewViewProps {
  readonly kind: WishKind
  readonly query: UseQueryResult
  readonly preview: Preview | null
  /** What becomes of what runs. */
  readonly serving: string
  /** Said while nothing can be asked. */
  readonly waitingFor: string
  /** A refusal that the sheet explains itself. */
  readonly isExplained?: boolean
}

export function PreviewView({ kind, query, preview, serving, waitingFor, isExplained = false }: PreviewViewProps) {
  return (
    <section
      aria-label="What will happen"
      aria-busy={query.isFetching}
      className="flex min-h-32 shrink-0 flex-col gap-2 rounded-md border bg-paper p-3"
    >
      <h3 className="font-medium">What will happen</h3>
      {query.error !== null && !isExplained ? (
        <Failed title="This can’t be done now." error={query.error} onRetry={() => void query.refetch()} />
      ) : preview === null ? (
        <p className="text-soft">{query.isFetching ? 'Asking …' : waitingFor}</p>
      ) : (
        <>
          <p>{previewSentence(kind, preview)}</p>
          {serving !== '' && <p className="[overflow-wrap:anywhere]">{serving}</p>}
          {fates.map(
            (fate) =>
              preview[fate].length > 0 && <Group key={fate} title={fateTitle(kind, fate)} tone={tones[fate]} nodes={preview[fate]} />,
          )}
        </>
      )}
    </section>
  )
}

function Group({ title, tone, nodes }: { readonly title: string; readonly tone: Tone; readonly nodes: readonly PlannedNode[] }) {
  return (
    <div className="text-[13px]">
      <h4>
        <Pill tone={tone}>{title}</Pill>
      </h4>
      <ul aria-label={title} className="max-h-48 overflow-y-auto pl-4">
        {nodes.map(({ id, name, note, bytes }) => (
          <li key={id} className="flex flex-wrap gap-x-2">
            <span className="[overflow-wrap:anywhere]">{name}</span>
            {note !== '' && <span className="text-soft [overflow-wrap:anywhere]">{note}</span>}
            {bytes > 0 && (
              <span title={`${bytes} bytes`} className="text-soft">
                {formatBytes(bytes)}
              </span>
            )}
          </li>
        ))}
      </ul>
    </div>
  )
}
