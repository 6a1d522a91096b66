// Relative times with the exact time as tooltip, from one clock for the whole page.
import { formatDuration } from '@muster/protocol'
import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const each of listeners) each()
  }, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/** The current time, to the second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => (timer === undefined ? (now = Math.floor(Date.now() / 1000) * 1000) : now))
}

/** `2m ago`, `in 45s`; a dash for an invalid time. */
export function When({ at }: { readonly at: string }) {
  const ms = Date.parse(at) - useNow()
  if (Number.isNaN(ms)) return '–'
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()} className="whitespace-nowrap">
      {ms > 999 ? `in ${formatDuration(ms)}` : ms > -1_500 ? 'now' : `${formatDuration(-ms)} ago`}
    </time>
  )
}
