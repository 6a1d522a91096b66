// YAML to write in: lines have numbers, and the one that something is wrong with is marked.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useBlocker } from '@tanstack/react-router'
import { useId } from 'react'
import { type ConfigProblem, type ModelConfig, type ModelName, modelRoutes } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys } from '../../api/queries.ts'
import { ConfirmSheet } from '../../components/dialog.tsx'
import { useSettled } from '../../components/field.tsx'

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

type Validation =
  | { readonly state: 'checking'; readonly problem: ConfigProblem | null }
  | { readonly state: 'unknown'; readonly problem: null; readonly error: Error }
  | { readonly state: 'invalid'; readonly problem: ConfigProblem }
  | { readonly state: 'valid'; readonly problem: null; readonly revision: string; readonly config: ModelConfig }

/** `name`: of the model that is edited; null: the text says it. */
export function useValidation(text: string, name: ModelName | null): Validation {
  const settled = useSettled(text)
  const asked = useQuery({
    queryKey: keys.validation(name, settled),
    queryFn: ({ signal }) =>
      call(modelRoutes.validate, {
        query: name === null ? {} : { name },
        content: { type: 'application/yaml', body: settled },
        signal,
      }),
    placeholderData: keepPreviousData,
    gcTime: 0,
  })
  const problem = asked.data?.valid === false ? (asked.data.problems[0] ?? { message: 'it is not valid' }) : null
  // It is asked again until it is answered; meanwhile the reason is no secret.
  const error = asked.error ?? asked.failureReason
  if (error !== null) return { state: 'unknown', problem: null, error }
  if (settled !== text || asked.isPlaceholderData || asked.data === undefined) return { state: 'checking', problem }
  return asked.data.valid
    ? { state: 'valid', problem: null, revision: asked.data.revision, config: asked.data.config }
    : { state: 'invalid', problem: problem ?? { message: 'it is not valid' } }
}

export function UnsavedGuard({ isDirty, what }: { readonly isDirty: boolean; readonly what: string }) {
  const blocker = useBlocker({
    // Drawers and sheets open over what is written; another tab or page takes its place.
    shouldBlockFn: ({ current, next }) => isDirty && (current.pathname !== next.pathname || tabOf(current.search) !== tabOf(next.search)),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <ConfirmSheet
      title="Leave without saving?"
      act="Leave, and lose the changes"
      look="danger"
      keep="Stay here"
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <p>Your changes of {what} are not saved.</p>
    </ConfirmSheet>
  )
}

const tabOf = (search: unknown): unknown => (typeof search === 'object' && search !== null && 'tab' in search ? search.tab : undefined)

export const exampleConfig = `# A name that is not taken yet: requests ask for it as "model".
name: my-model

# What serves it; it is installed where it is needed.
backend: llama

# "model" names the file to load; the others are defaults of requests.
parameters:
  model: model.gguf
  temperature: 0.2

# In tokens; the backend's own when it is left out.
context_size: 4096

# Where its files come from: https://, hf://owner/repo/file, oci://, s3:// or file:///.
# With a sha256 a file is checked, and fetched once for the whole cluster.
files:
  - uri: "hf://TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF/tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf"
    filename: model.gguf

# Where and how often it runs. It is loaded by its first request, unless a minimum is kept up.
scheduling:
  min_replicas: 0
  max_replicas: 1
`
