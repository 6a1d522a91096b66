// What the processes of a node's models write, as they write it.
import { ModelName, type NodeView } from '@muster/protocol'
import { useNavigate } from '@tanstack/react-router'
import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Button } from '../../components/button.tsx'
import { useCopied } from '../../components/copy.tsx'
import { SelectField } from '../../components/field.tsx'
import { Empty } from '../../components/loaded.tsx'
import { SearchText } from '../../components/search-text.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { plural } from '../../format/amounts.ts'
import { filterLines } from './log-lines.ts'
import { useLog, type Log } from './use-log.ts'

export interface NodeLogsProps {
  readonly node: NodeView
  /** Of all of them unless told. */
  readonly model: string | undefined
  readonly q: string
}

export function NodeLogs({ node, model, q }: NodeLogsProps) {
  const [isPaused, setPaused] = useState(false)
  const [isWrapped, setWrapped] = useState(true)
  const navigate = useNavigate()
  const parsed = ModelName.safeParse(model)
  const log = useLog({ id: node.id, model: parsed.data, isPaused })
  const shown = useMemo(() => filterLines(log.lines, q), [log.lines, q])
  const [isCopied, copy] = useCopied()
  const choose = (change: { model?: string | undefined; q?: string | undefined }, isTyped = false): void =>
    void navigate({ to: '/nodes/$id', params: { id: node.id }, search: (before) => ({ ...before, ...change }), replace: isTyped })
  const models = [...new Set([...node.models, ...(model === undefined ? [] : [model])])].toSorted()
  if (node.node_type === 'agent') return <Empty title="An agent runs no models, so there are no logs." />
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <SelectField
          label="Model"
          isLabelHidden
          className="max-w-56"
          value={model ?? ''}
          onChange={(event) => choose({ model: event.target.value || undefined })}
          choices={[{ value: '', label: 'all models' }, ...models.map((name) => ({ value: name, label: name }))]}
        />
        <SearchText label="Show only lines with" text={q} onType={(typed) => choose({ q: typed }, true)} />
        <Button aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Go on' : 'Pause'}
        </Button>
        <Button aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          Wrap
        </Button>
        <Button disabled={shown.length === 0} onClick={() => copy(shown.join('\n'))}>
          {isCopied ? 'Copied' : 'Copy'}
        </Button>
        <Standing log={log} isPaused={isPaused} />
      </div>
      <Lines lines={shown} isWrapped={isWrapped} isPaused={isPaused} nothing={sayNothing(log, q)} />
    </div>
  )
}

function sayNothing({ lines, state }: Log, q: string): string {
  if (lines.length > 0) return `None of ${plural(lines.length, 'line')} has “${q}” in it.`
  switch (state.is) {
    case 'connecting':
      return 'Reading the log …'
    case 'following':
      return 'Nothing was written yet. What its models write appears here by itself.'
    case 'broken':
      return `No log: ${state.why}. It is tried again by itself.`
    default:
      return state satisfies never
  }
}

function Standing({ log: { state, waiting, lines }, isPaused }: { readonly log: Log; readonly isPaused: boolean }) {
  if (state.is === 'connecting') return <Pill tone="idle">connecting</Pill>
  if (state.is === 'broken')
    return (
      <Pill tone="wait" hint={state.why}>
        connecting again
      </Pill>
    )
  if (isPaused) return <Pill tone="wait" sign="‖">{`paused, ${plural(waiting, 'line')} more`}</Pill>
  return <Pill tone="good" sign="●">{`following, ${plural(lines.length, 'line')}`}</Pill>
}

interface LinesProps {
  readonly lines: readonly string[]
  readonly isWrapped: boolean
  readonly isPaused: boolean
  readonly nothing: string
}

/** One text, however many lines: thousands of elements would be slow. It stays at its end unless somebody scrolled away. */
function Lines({ lines, isWrapped, isPaused, nothing }: LinesProps) {
  const box = useRef<HTMLPreElement>(null)
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    if (box.current !== null && isAtEnd.current && !isPaused) box.current.scrollTop = box.current.scrollHeight
  })
  return (
    <pre
      ref={box}
      tabIndex={0}
      role="log"
      aria-label="Log"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < 30
      }}
      className={`h-[min(32rem,60dvh)] overflow-auto rounded-md border bg-sunken p-3 font-mono text-[12px] ${isWrapped ? 'whitespace-pre-wrap [overflow-wrap:anywhere]' : ''}`}
    >
      {lines.length === 0 ? <span className="font-sans text-soft">{nothing}</span> : lines.join('\n')}
    </pre>
  )
}
