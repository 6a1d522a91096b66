// A thin bar. What it says is also said in words beside it; `label` names it for those who listen.
import { toneFill, type Tone } from './state-mark.tsx'

export interface BarProps {
  /** 0–100. */
  readonly percent: number
  readonly label: string
  readonly tone?: Tone | 'ink'
  readonly className?: string
}

export function Bar({ percent, label, tone = 'ink', className = '' }: BarProps) {
  const width = Math.max(0, Math.min(100, percent))
  return (
    <span
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(width)}
      className={`block h-1 w-full overflow-hidden rounded-full bg-line ${className}`}
    >
      <span className={`block h-full rounded-full ${tone === 'ink' ? 'bg-ink' : toneFill[tone]}`} style={{ width: `${width}%` }} />
    </span>
  )
}
