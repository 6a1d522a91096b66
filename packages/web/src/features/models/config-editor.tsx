// The YAML editor of a model's configuration: line numbers, validation by the server, a guard for unsaved changes.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useBlocker } from '@tanstack/react-router'
import { useId } from 'react'
import { type ConfigProblem, type ModelConfig, type ModelName, modelRoutes, summarizeConversion } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { keys } from '../../api/queries.ts'
import { ConfirmSheet } from '../../components/dialog.tsx'
import { useDebounced } from '../../components/field.tsx'

const minLines = 16
/** Longer texts scroll without line numbers: a browser takes minutes to render a hundred thousand of them. */
const maxNumbered = 2_000

export function ConfigEditor({ text, validation, onChange }: { text: string; validation: Validation; onChange: (text: string) => void }) {
  const id = useId()
  const count = Math.max(minLines, text.split('\n').length + 1)
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
          {Array.from({ length: Math.min(count, maxNumbered) }, (_, index) => (
            <div key={index} className={`pr-2 pl-1 ${problem?.line === index + 1 ? 'bg-bad text-paper' : ''}`}>
              <span className="inline-block w-3">{problem?.line === index + 1 ? '✕' : ''}</span>
              <span className="inline-block min-w-6">{index + 1}</span>
            </div>
          ))}
        </div>
        <textarea
          id={id}
          value={text}
          rows={Math.min(count, maxNumbered)}
          wrap="off"
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          aria-invalid={problem !== null}
          aria-describedby={`${id}-status`}
          onChange={({ target }) => onChange(target.value)}
          className={`min-w-0 flex-1 resize-none overflow-x-auto bg-raised ${count > maxNumbered ? 'overflow-y-auto' : 'overflow-y-hidden'} px-3 py-2 leading-5 text-ink`}
        />
      </div>
      {/* Keeps its height, so that nothing below moves while the user types. */}
      <p id={`${id}-status`} role="status" className="min-h-10 [overflow-wrap:anywhere]">
        <ValidationStatus validation={validation} />
      </p>
    </div>
  )
}

function ValidationStatus({ validation }: { readonly validation: Validation }) {
  if (validation.problem !== null) return <span className="text-bad">✕ {validation.problem.message}</span>
  if (validation.state === 'unknown') return <span className="text-wait">Could not validate: {validation.error.message}</span>
  if (validation.state === 'valid')
    return (
      <span className="text-good">✓ Valid{validation.conversion !== null && `, converted from LocalAI: ${validation.conversion}`}</span>
    )
  return <span className="text-soft">Validating…</span>
}

type Validation =
  | { readonly state: 'checking'; readonly problem: ConfigProblem | null }
  | { readonly state: 'unknown'; readonly problem: null; readonly error: Error }
  | { readonly state: 'invalid'; readonly problem: ConfigProblem }
  | {
      readonly state: 'valid'
      readonly problem: null
      readonly revision: string
      readonly config: ModelConfig
      readonly conversion: string | null
    }

/** Validates a configuration when typing pauses. `name` is null for a new model, whose text has the name. */
export function useValidation(text: string, name: ModelName | null): Validation {
  const settled = useDebounced(text)
  const query = useQuery({
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
  const problem = query.data?.valid === false ? (query.data.problems[0] ?? { message: 'invalid configuration' }) : null
  // The query retries; the reason is shown meanwhile.
  const error = query.error ?? query.failureReason
  if (error !== null) return { state: 'unknown', problem: null, error }
  if (settled !== text || query.isPlaceholderData || query.data === undefined) return { state: 'checking', problem }
  return query.data.valid
    ? {
        state: 'valid',
        problem: null,
        revision: query.data.revision,
        config: query.data.config,
        conversion: query.data.keys === undefined ? null : summarizeConversion(query.data.keys),
      }
    : { state: 'invalid', problem: problem ?? { message: 'invalid configuration' } }
}

/** Asks before unsaved changes are lost, also when the browser leaves the page. */
export function UnsavedGuard({ isDirty, what }: { readonly isDirty: boolean; readonly what: string }) {
  const blocker = useBlocker({
    // Drawers and sheets keep the editor; another tab or page replaces it.
    shouldBlockFn: ({ current, next }) => isDirty && (current.pathname !== next.pathname || tabOf(current.search) !== tabOf(next.search)),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <ConfirmSheet
      title="Leave without saving?"
      action="Leave page"
      look="danger"
      dismiss="Stay on page"
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <p>Your changes to {what} are not saved.</p>
    </ConfirmSheet>
  )
}

const tabOf = (search: unknown): unknown => (typeof search === 'object' && search !== null && 'tab' in search ? search.tab : undefined)

/** The text of a new model: a valid configuration with comments. */
export const exampleConfig = `# Requests use this name as "model".
name: my-model

# The backend that serves the model; installed where it is needed.
backend: llama

# "model" is the file to load; the others are defaults for requests.
parameters:
  model: model.gguf
  temperature: 0.2

# In tokens; the backend's default if omitted.
context_size: 4096

# Sources: https://, hf://owner/repo/file, oci://, s3:// or file:///.
# A file with sha256 is verified, and downloaded once for the whole cluster.
files:
  - uri: "hf://TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF/tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf"
    filename: model.gguf

# The first request loads the model, unless a minimum is set.
scheduling:
  min_replicas: 0
  max_replicas: 1
`
