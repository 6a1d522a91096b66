// The five tones of a state, each with a color and a sign, so that color alone never carries meaning.

export type Tone = 'idle' | 'work' | 'wait' | 'good' | 'bad'

export const toneText: Readonly<Record<Tone, string>> = {
  idle: 'text-idle',
  work: 'text-work',
  wait: 'text-wait',
  good: 'text-good',
  bad: 'text-bad',
}
const toneFill: Readonly<Record<Tone, string>> = {
  idle: 'bg-idle',
  work: 'bg-work',
  wait: 'bg-wait',
  good: 'bg-good',
  bad: 'bg-bad',
}
export const toneSign: Readonly<Record<Tone, string>> = { idle: '○', work: '↓', wait: '◔', good: '✓', bad: '✕' }

/** A sign and a word; `hint` is its tooltip and screen reader text. */
export function Pill({
  tone,
  sign,
  hint,
  children,
}: {
  tone: Tone
  sign?: string | undefined
  hint?: string | undefined
  children: string
}) {
  return (
    <span title={hint} className={`inline-flex items-center gap-1 whitespace-nowrap ${toneText[tone]}`}>
      <span aria-hidden className="inline-block w-3 text-center text-[0.85em]">
        {sign ?? toneSign[tone]}
      </span>
      <span>{children}</span>
      {hint !== undefined && <span className="sr-only">: {hint}</span>}
    </span>
  )
}

interface BarProps {
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
