// YAML to write in: lines have numbers, and the one that something is wrong with is marked.
import { useId } from 'react'
import type { Validation } from './use-validation.ts'

export interface ConfigEditorProps {
  readonly text: string
  readonly validation: Validation
  readonly onChange: (text: string) => void
}

const fewestLines = 16
/** Whatever is longer scrolls by itself and has no numbers there: a browser takes minutes for a hundred thousand of them. */
const mostNumbered = 2_000

export function ConfigEditor({ text, validation, onChange }: ConfigEditorProps) {
  const id = useId()
  const count = Math.max(fewestLines, text.split('\n').length + 1)
  const { problem } = validation
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className="sr-only">
        Configuration
      </label>
      <div
        className={`flex overflow-hidden rounded-md border bg-raised font-mono text-[13px] leading-5 ${problem === null ? '' : 'border-bad'}`}
      >
        <div aria-hidden className="shrink-0 border-r bg-sunken py-2 text-right text-soft select-none">
          {Array.from({ length: Math.min(count, mostNumbered) }, (_, index) => (
            <div key={index} className={`pr-2 pl-1 ${problem?.line === index + 1 ? 'bg-bad text-paper' : ''}`}>
              <span className="inline-block w-3">{problem?.line === index + 1 ? '✕' : ''}</span>
              <span className="inline-block min-w-6">{index + 1}</span>
            </div>
          ))}
        </div>
        <textarea
          id={id}
          value={text}
          rows={Math.min(count, mostNumbered)}
          wrap="off"
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          aria-invalid={problem !== null}
          aria-describedby={`${id}-said`}
          onChange={({ target }) => onChange(target.value)}
          className={`min-w-0 flex-1 resize-none overflow-x-auto bg-raised ${count > mostNumbered ? 'overflow-y-auto' : 'overflow-y-hidden'} px-3 py-2 leading-5 text-ink`}
        />
      </div>
      {/* Its place is kept: what is below does not jump while somebody types. */}
      <p id={`${id}-said`} role="status" className="min-h-10 [overflow-wrap:anywhere]">
        <Said validation={validation} />
      </p>
    </div>
  )
}

function Said({ validation }: { readonly validation: Validation }) {
  if (validation.problem !== null) return <span className="text-bad">✕ {validation.problem.message}</span>
  if (validation.state === 'unknown') return <span className="text-wait">It could not be checked: {validation.error.message}</span>
  if (validation.state === 'valid') return <span className="text-good">✓ valid</span>
  return <span className="text-soft">checking …</span>
}
