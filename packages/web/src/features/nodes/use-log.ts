// Follows what the processes of a node's models write, and connects again by itself.
import { createSseParser, nodeRoutes, type ModelName, type NodeId } from '@muster/protocol'
import { useEffect, useRef, useState } from 'react'
import { open, refusalOf } from '../../api/client.ts'
import { appendLines } from './log-lines.ts'

export type LogState = { readonly is: 'connecting' } | { readonly is: 'following' } | { readonly is: 'broken'; readonly why: string }
export interface Log {
  readonly lines: readonly string[]
  readonly state: LogState
  /** Lines that came while it was paused. */
  readonly waiting: number
}

/** Lines come in bursts; a burst is one change of the page. */
const flushMs = 150
const retryMs = 3_000

interface LogSource {
  readonly id: NodeId
  readonly model: ModelName | undefined
  readonly isPaused: boolean
}

export function useLog({ id, model, isPaused }: LogSource): Log {
  const [log, setLog] = useState<Log>({ lines: [], state: { is: 'connecting' }, waiting: 0 })
  const paused = useRef(isPaused)
  const flush = useRef<() => void>(() => undefined)
  useEffect(() => {
    paused.current = isPaused
    if (!isPaused) flush.current()
  }, [isPaused])
  useEffect(() => {
    const stop = new AbortController()
    let arrived: readonly string[] = []
    let isAnew = true
    flush.current = () => {
      const more = arrived
      if (more.length === 0) return
      if (paused.current) return setLog((before) => ({ ...before, waiting: more.length }))
      const isReplaced = isAnew
      arrived = []
      isAnew = false
      setLog((before) => ({ ...before, lines: isReplaced ? more : appendLines(before.lines, more), waiting: 0 }))
    }
    const timer = setInterval(() => flush.current(), flushMs)
    void follow({
      ...{ id, model, signal: stop.signal },
      onOpen: () => {
        // What is written in the log already comes again with each connection; what somebody reads stays until then.
        arrived = []
        isAnew = true
        setLog((before) => ({ ...before, state: { is: 'following' }, waiting: 0 }))
      },
      onLine: (line) => (arrived = appendLines(arrived, [line])),
      onBroken: (why) => setLog((before) => ({ ...before, state: { is: 'broken', why } })),
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
  readonly onBroken: (why: string) => void
}

async function follow({ id, model, signal, onOpen, onLine, onBroken }: FollowDeps): Promise<void> {
  while (!signal.aborted) {
    try {
      const query = { follow: 'true', ...(model === undefined ? {} : { model }) }
      const response = await open(nodeRoutes.logs, { params: { id }, query, signal, headers: { accept: 'text/event-stream' } })
      if (!response.ok || response.body === null) throw refusalOf(response.status, await response.text())
      onOpen()
      const parser = createSseParser('')
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let read = await reader.read(); !read.done; read = await reader.read())
        for (const { data } of parser.push(read.value)) onLine(data)
      onBroken('the node ended the connection')
    } catch (error) {
      if (signal.aborted) return
      onBroken(error instanceof Error ? error.message : String(error))
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}
