// How far a whole operation is: a bar, and the same in figures.
import type { OperationView } from '@muster/protocol'
import { Bar } from '../../components/bar.tsx'
import { formatBytes, formatBytesOf, formatDuration } from '../../format/amounts.ts'
import { useRate } from './operation-book.ts'
import { isActive, markOf, percentText, titleOf } from './operation-words.ts'
import { msLeft, roundGuess } from './rate.ts'

export function useTimeLeft(operation: OperationView): { readonly rate: number | null; readonly left: string } {
  const rate = useRate(operation)
  const ms = msLeft({ current: operation.current_bytes, total: operation.total_bytes }, rate)
  return { rate, left: ms === null ? '' : `about ${formatDuration(roundGuess(ms))}` }
}

export function OperationProgress({ operation }: { readonly operation: OperationView }) {
  const { rate, left } = useTimeLeft(operation)
  const { current_bytes: current, total_bytes: total, progress } = operation
  const isOpen = isActive(operation)
  return (
    <div className="flex flex-col gap-1">
      <Bar percent={progress} label={`${titleOf(operation)}: progress`} tone={markOf(operation).tone} />
      {/* The line is kept, also while nothing is known. */}
      <p className="flex min-h-[1.45em] flex-wrap items-baseline gap-x-3 text-[13px] text-soft">
        <span className="w-12 font-medium whitespace-nowrap text-ink">{percentText(progress)}</span>
        {total > 0 && <span title={`${current} of ${total} bytes`}>{formatBytesOf(current, total)}</span>}
        {isOpen && rate !== null && <span>{formatBytes(rate)}/s</span>}
        {isOpen && left !== '' && <span>{left}</span>}
      </p>
    </div>
  )
}
