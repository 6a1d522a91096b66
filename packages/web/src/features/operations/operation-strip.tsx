// The strip in the header of every page: the running operation, or the one that just ended.
import type { OperationView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'
import { operationsQuery } from '../../api/queries.ts'
import { Bar, toneSign, toneText } from '../../components/state.tsx'
import { plural } from '../../format.ts'
import { DisclosureButton, NodeProgressList, useJustEnded, useTimeLeft } from './operation-progress.tsx'
import { foremost, isActive, markOf, nodesDone, percentText, titleOf } from './operation-words.pure.ts'

export function OperationStrip() {
  const active = useQuery(operationsQuery('active')).data ?? []
  const ended = useJustEnded()
  const operation = foremost(active) ?? ended
  return (
    <section aria-label="Running operations" className="flex h-10 min-w-0 items-center gap-2">
      {operation === null ? (
        <p className="truncate text-soft">No operations running</p>
      ) : (
        <StripOperation key={operation.id} operation={operation} others={active.filter(({ id }) => id !== operation.id).length} />
      )}
      {ended !== null && operation !== null && ended.id !== operation.id && <JustEnded operation={ended} />}
    </section>
  )
}

function StripOperation({ operation, others }: { readonly operation: OperationView; readonly others: number }) {
  const mark = markOf(operation)
  const title = titleOf(operation)
  return (
    <>
      <Link
        to="."
        search={(before) => ({ ...before, op: operation.id })}
        className="flex min-w-0 flex-col gap-0.5 rounded-md hover:underline"
      >
        <span className="flex min-w-0 items-baseline gap-1.5">
          <span aria-hidden className={toneText[mark.tone]}>
            {mark.sign ?? toneSign[mark.tone]}
          </span>
          <span className="truncate">
            {title}
            <StripFigures operation={operation} />
          </span>
          {isActive(operation) && <span className="sr-only">: {mark.word}</span>}
        </span>
        <Bar percent={operation.progress} label={`${title}: progress`} tone={mark.tone} />
      </Link>
      {operation.nodes.length > 1 && <StripNodes operation={operation} />}
      {others > 0 && (
        <Link to="/operations" className="whitespace-nowrap text-soft hover:text-ink max-sm:hidden">
          +{others} more
        </Link>
      )}
    </>
  )
}

function StripFigures({ operation }: { readonly operation: OperationView }) {
  const { timeLeft } = useTimeLeft(operation)
  if (!isActive(operation)) return ` · ${markOf(operation).word.toLowerCase()}`
  const done = nodesDone(operation.nodes)
  return [done === '' ? '' : ` → ${done}`, percentText(operation.progress), timeLeft]
    .filter((part) => part !== '')
    .join(' · ')
    .replace(/^(?! →)/, ' · ')
}

function JustEnded({ operation }: { readonly operation: OperationView }) {
  const { tone, word, sign } = markOf(operation)
  return (
    <Link
      to="."
      search={(before) => ({ ...before, op: operation.id })}
      className={`hidden truncate hover:underline md:block ${toneText[tone]}`}
    >
      <span aria-hidden>{sign ?? toneSign[tone]} </span>
      {titleOf(operation)}: {word.toLowerCase()}
    </Link>
  )
}

/** A popup with the nodes; Escape and a click elsewhere close it. */
function StripNodes({ operation }: { readonly operation: OperationView }) {
  const [isOpen, setOpen] = useState(false)
  const container = useRef<HTMLDivElement>(null)
  const id = useId()
  useEffect(() => {
    if (!isOpen) return undefined
    const stop = new AbortController()
    const { signal } = stop
    document.addEventListener('keydown', ({ key }) => key === 'Escape' && setOpen(false), { signal })
    document.addEventListener(
      'pointerdown',
      ({ target }) => target instanceof Node && container.current?.contains(target) === false && setOpen(false),
      { signal },
    )
    return () => stop.abort()
  }, [isOpen])
  return (
    <div ref={container} className="shrink-0 sm:relative">
      <DisclosureButton
        label={plural(operation.nodes.length, 'node')}
        of={titleOf(operation)}
        isOpen={isOpen}
        controls={id}
        onToggle={() => setOpen(!isOpen)}
      />
      <div
        id={id}
        hidden={!isOpen}
        className="absolute top-full z-20 mt-1 max-h-[70dvh] overflow-y-auto rounded-md border bg-raised p-2 shadow-lg max-sm:inset-x-2 sm:left-0 sm:w-[34rem]"
      >
        {isOpen && <NodeProgressList operation={operation} />}
      </div>
    </div>
  )
}
