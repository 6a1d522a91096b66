// The time in which a controller could know the truth about a node: it answered promptly, the worker was connected, and no fault
// that keeps them apart was in force or over only just now. Pure.
import type { Fault, Observation } from './observation.ts'

export type Span = Readonly<{ from: number; to: number }>

/** After a fault the parts connect again, and the worker repeats what was lost. */
const recoveryMs = 3_000
/** A worker may connect to NATS before any controller does; it repeats its reports 5 s later. */
const natsRecoveryMs = 6_000

export type Quiet = (controller: number, node: string) => readonly Span[]

export function createQuiet({ clear, faults }: Pick<Observation, 'clear' | 'faults'>, { draining = true } = {}): Quiet {
  const windows = Map.groupBy(
    clear.filter(({ isDraining }) => draining || !isDraining),
    ({ controller, node }) => `${controller} ${node}`,
  )
  const known = new Map<string, readonly Span[]>()
  return (controller, node) => {
    const key = `${controller} ${node}`
    const before = known.get(key)
    if (before !== undefined) return before
    const concerned = faults.filter((fault) => concerns(fault, { controller, node }))
    const spans = concerned.reduce((left, fault) => left.flatMap((span) => without(span, fault)), windows.get(key) ?? ([] as Span[]))
    known.set(key, spans)
    return spans
  }
}

const concerns = ({ name }: Fault, { controller, node }: { controller: number; node: string }): boolean =>
  name === 'nats' || name === 'postgres' || name === node || name === `controller-${controller}`

function without(span: Span, { name, from, to }: Fault): Span[] {
  const recoveredAt = to + (name === 'nats' ? natsRecoveryMs : recoveryMs)
  return [
    { from: span.from, to: Math.min(span.to, from) },
    { from: Math.max(span.from, recoveredAt), to: span.to },
  ].filter((each) => each.to > each.from)
}

/** The longest time that lies in a span of each list. */
export function longestCommon(...lists: readonly (readonly Span[])[]): number {
  const common = lists.reduce((left, right) =>
    left
      .flatMap((a) => right.map((b) => ({ from: Math.max(a.from, b.from), to: Math.min(a.to, b.to) })))
      .filter(({ from, to }) => to > from),
  )
  return Math.max(0, ...common.map(({ from, to }) => to - from))
}
