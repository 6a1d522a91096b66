// The live log of a node's model processes.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { createSseParser, ModelName, type NodeId, nodeRoutes, type NodeView } from '@muster/protocol'
import { open, toApiFailure } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { useCopied } from '../../components/copy.tsx'
import { SearchField, SelectField } from '../../components/field.tsx'
import { Empty } from '../../components/loaded.tsx'
import { Pill } from '../../components/state.tsx'
import { plural } from '../../format.ts'
import { appendLines, filterLines } from './log-lines.pure.ts'

export interface NodeLogsProps {
  readonly node: NodeView
  /** All models when undefined. */
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
  if (node.node_type === 'agent') return <Empty title="Agents run no models, so there are no logs." />
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <SelectField
          label="Model"
          isLabelHidden
          className="max-w-56"
          value={model ?? ''}
          onChange={(event) => choose({ model: event.target.value || undefined })}
          choices={[{ value: '', label: 'All models' }, ...models.map((name) => ({ value: name, label: name }))]}
        />
        <SearchField label="Filter lines" text={q} onType={(typed) => choose({ q: typed }, true)} />
        <Button aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
        <Button aria-pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          Wrap
        </Button>
        <Button disabled={shown.length === 0} onClick={() => copy(shown.join('\n'))}>
          {isCopied ? 'Copied' : 'Copy'}
        </Button>
        <LogStatus log={log} isPaused={isPaused} />
      </div>
      <Lines lines={shown} isWrapped={isWrapped} isPaused={isPaused} emptyText={emptyLogText(log)} />
    </div>
  )
}

function emptyLogText({ lines, state }: Log): string {
  if (lines.length > 0) return 'No lines match this filter.'
  switch (state.kind) {
    case 'connecting':
      return 'Loading log…'
    case 'following':
      return 'No output yet. New lines appear automatically.'
    case 'broken':
      return `Log unavailable: ${state.reason}. Retrying…`
    default:
      return state satisfies never
  }
}

function LogStatus({ log: { state, waiting, lines }, isPaused }: { readonly log: Log; readonly isPaused: boolean }) {
  if (state.kind === 'connecting') return <Pill tone="idle">connecting</Pill>
  if (state.kind === 'broken')
    return (
      <Pill tone="wait" hint={state.reason}>
        reconnecting
      </Pill>
    )
  if (isPaused) return <Pill tone="wait" sign="‖">{`paused, ${plural(waiting, 'new line')}`}</Pill>
  return <Pill tone="good" sign="●">{`following, ${plural(lines.length, 'line')}`}</Pill>
}

type LinesProps = Readonly<{ lines: readonly string[]; isWrapped: boolean; isPaused: boolean; emptyText: string }>

/** One text node, because thousands of elements would be slow. Stays at the end unless the user scrolled up. */
function Lines({ lines, isWrapped, isPaused, emptyText }: LinesProps) {
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
      {lines.length === 0 ? <span className="font-sans text-soft">{emptyText}</span> : lines.join('\n')}
    </pre>
  )
}

type LogState = { readonly kind: 'connecting' } | { readonly kind: 'following' } | { readonly kind: 'broken'; readonly reason: string }
interface Log {
  readonly lines: readonly string[]
  readonly state: LogState
  /** Lines received while paused. */
  readonly waiting: number
}

/** Lines are rendered in batches. */
const flushMs = 150
const retryMs = 3_000

/** Follows the log of a node and reconnects after failures. */
function useLog({ id, model, isPaused }: { id: NodeId; model: ModelName | undefined; isPaused: boolean }): Log {
  const [log, setLog] = useState<Log>({ lines: [], state: { kind: 'connecting' }, waiting: 0 })
  const paused = useRef(isPaused)
  const flush = useRef<() => void>(() => undefined)
  useEffect(() => {
    paused.current = isPaused
    if (!isPaused) flush.current()
  }, [isPaused])
  useEffect(() => {
    const stop = new AbortController()
    let received: readonly string[] = []
    let isReconnected = true
    flush.current = () => {
      const more = received
      if (more.length === 0) return
      if (paused.current) return setLog((before) => ({ ...before, waiting: more.length }))
      const replaces = isReconnected
      received = []
      isReconnected = false
      setLog((before) => ({ ...before, lines: replaces ? more : appendLines(before.lines, more), waiting: 0 }))
    }
    const timer = setInterval(() => flush.current(), flushMs)
    void follow({
      ...{ id, model, signal: stop.signal },
      onOpen: () => {
        // Each connection sends the log from its beginning; the shown lines stay until the new ones arrive.
        received = []
        isReconnected = true
        setLog((before) => ({ ...before, state: { kind: 'following' }, waiting: 0 }))
      },
      onLine: (line) => (received = appendLines(received, [line])),
      onBroken: (reason) => setLog((before) => ({ ...before, state: { kind: 'broken', reason } })),
    })
    return () => {
      stop.abort()
      clearInterval(timer)
      flush.current = () => undefined
    }
  }, [id, model])
  return log
}

interface FollowDeps {
  readonly id: NodeId
  readonly model: ModelName | undefined
  readonly signal: AbortSignal
  readonly onOpen: () => void
  readonly onLine: (line: string) => void
  readonly onBroken: (reason: string) => void
}

async function follow({ id, model, signal, onOpen, onLine, onBroken }: FollowDeps): Promise<void> {
  while (!signal.aborted) {
    try {
      const query = { follow: 'true', ...(model === undefined ? {} : { model }) }
      const response = await open(nodeRoutes.logs, { params: { id }, query, signal, headers: { accept: 'text/event-stream' } })
      if (!response.ok || response.body === null) throw toApiFailure(response.status, await response.text())
      onOpen()
      const parser = createSseParser('')
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let read = await reader.read(); !read.done; read = await reader.read())
        for (const { data } of parser.push(read.value)) onLine(data)
      onBroken('the node closed the connection')
    } catch (error) {
      if (signal.aborted) return
      onBroken(error instanceof Error ? error.message : String(error))
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}
