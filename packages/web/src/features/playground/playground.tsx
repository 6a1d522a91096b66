// The playground: model, parameters, code samples and conversation.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import type { ModelView } from '@muster/protocol'
import { Button } from '../../components/button.tsx'
import { CopyBlock } from '../../components/copy.tsx'
import { Form, SelectField, TextArea, TextField } from '../../components/field.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { isLoopback } from '../../format.ts'
import { curlSample, javascriptSample, pythonSample, type Sample } from './code-samples.pure.ts'
import { TurnList } from './turn-list.tsx'
import { isBusy as isAsking, messagesFor } from './conversation.pure.ts'
import { describeParameters, noParameters, type ParameterForm, readParameters } from './parameters.pure.ts'
import { type PlaygroundState, usePlayground } from './playground-store.ts'
import { stateWords } from './playground-words.pure.ts'

export interface PlaygroundProps {
  readonly models: readonly ModelView[]
  /** Null when no model has the requested name. */
  readonly selected: ModelView | null
  readonly named: string | undefined
  readonly tab: string
}

export function Playground({ models, selected, named, tab }: PlaygroundProps) {
  const [state, store] = usePlayground()
  const { conversation, form, draft } = state
  const isBusy = isAsking(conversation)
  useWake(models, conversation.turns.at(-1)?.model, store.wake)
  const hasErrors = Object.keys(readParameters(form).errors).length > 0
  const obstacle =
    selected === null
      ? `Model ${named ?? ''} does not exist; select another one.`
      : hasErrors
        ? 'Fix the invalid parameter or leave it empty.'
        : null
  const name = selected?.name ?? ''
  return (
    // Extends to the end of the page, so that the message field does not move while a response grows.
    <div className="-mb-5 grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_24rem]">
      <div className="flex min-w-0 flex-col gap-4 lg:order-2">
        <ModelPicker models={models} selected={selected} named={named} />
        <ParameterPanel form={form} onChange={store.setForm} />
        <CodeSamples state={state} model={selected?.name ?? named ?? ''} tab={tab} />
        <Button className="self-start" disabled={conversation.turns.length === 0} onClick={store.clear}>
          Clear conversation
        </Button>
      </div>
      <div className="flex min-h-[calc(100dvh-11rem)] min-w-0 flex-col">
        <div className="flex-1 pb-4">
          {conversation.turns.length === 0 && <p className="text-soft">No messages yet. They stay in this browser tab.</p>}
          <TurnList turns={conversation.turns} isBusy={isBusy} onEdit={store.editLast} onRegenerate={() => store.regenerateLast(name)} />
        </div>
        <Composer
          draft={draft}
          isBusy={isBusy}
          obstacle={obstacle}
          onChange={store.setDraft}
          onSend={() => store.send(name)}
          onStop={store.stop}
        />
      </div>
    </div>
  )
}

function ModelPicker({ models, selected, named }: Pick<PlaygroundProps, 'models' | 'selected' | 'named'>) {
  const navigate = useNavigate()
  const choices = models.map(({ name, state }) => ({ value: name as string, label: `${name} · ${stateWords[state]}` }))
  const missing = selected === null && named !== undefined ? [{ value: named, label: `${named} · not found` }] : []
  return (
    <SelectField
      label="Model"
      choices={[...missing, ...choices]}
      value={selected?.name ?? named ?? ''}
      onChange={(event) =>
        void navigate({ to: '/playground', search: (before) => ({ ...before, model: event.target.value }), replace: true })
      }
    />
  )
}

/** Repeats a waiting request once the model is ready or has failed. */
function useWake(models: readonly ModelView[], waitingFor: string | undefined, wake: () => void): void {
  const state = models.find(({ name }) => name === waitingFor)?.state
  useEffect(() => {
    if (state === 'ready' || state === 'failed') wake()
  }, [state, wake])
}

const numbers = [
  { field: 'temperature', label: 'Temperature', hint: 'Higher values give more random responses' },
  { field: 'topP', label: 'Top p', hint: 'Samples from the most likely tokens up to this probability' },
  { field: 'maxTokens', label: 'Max tokens', hint: 'Maximum length of the response' },
  { field: 'seed', label: 'Seed', hint: 'The same seed gives the same response, if the backend supports it' },
] as const

function ParameterPanel({ form, onChange }: { readonly form: ParameterForm; readonly onChange: (form: ParameterForm) => void }) {
  const { errors } = readParameters(form)
  const set = (field: keyof ParameterForm) => (event: { readonly target: { readonly value: string } }) =>
    onChange({ ...form, [field]: event.target.value })
  const summary = describeParameters(form)
  return (
    <details className="rounded-md border bg-raised">
      <summary className="px-3 py-2 font-medium">
        Parameters <span className="font-normal text-soft">{summary === '' ? 'backend defaults' : summary}</span>
      </summary>
      <div className="flex flex-col gap-3 border-t p-3">
        <TextArea label="System prompt" rows={3} value={form.system} onChange={set('system')} />
        <div className="grid grid-cols-2 gap-3">
          {numbers.map(({ field, label, hint }) => (
            <TextField
              key={field}
              label={label}
              title={hint}
              inputMode="decimal"
              autoComplete="off"
              value={form[field]}
              error={errors[field] ?? null}
              onChange={set(field)}
            />
          ))}
        </div>
        <TextArea label="Stop sequences, one per line" rows={2} value={form.stop} error={errors.stop ?? null} onChange={set('stop')} />
        <Button className="self-start" disabled={summary === '' && Object.keys(errors).length === 0} onClick={() => onChange(noParameters)}>
          Reset to defaults
        </Button>
      </div>
    </details>
  )
}

const samples: Readonly<Record<string, { readonly label: string; readonly sample: Sample }>> = {
  curl: { label: 'curl', sample: curlSample },
  javascript: { label: 'JavaScript', sample: javascriptSample },
  python: { label: 'Python', sample: pythonSample },
}

function CodeSamples({ state, model, tab }: { readonly state: PlaygroundState; readonly model: string; readonly tab: string }) {
  const selected = samples[tab] === undefined ? 'curl' : tab
  const { label, sample } = samples[selected] ?? { label: 'curl', sample: curlSample }
  const { turns } = state.conversation
  const last = turns.at(-1)
  const isDraft = state.draft.trim() !== '' || last === undefined
  const question = isDraft ? (state.draft.trim() === '' ? 'Hello!' : state.draft) : last.question
  const text = sample({
    origin: location.origin,
    isKeyNeeded: !isLoopback(location.hostname),
    model: isDraft ? model : last.model,
    messages: messagesFor(isDraft ? turns : turns.slice(0, -1), { system: state.form.system, question }),
    parameters: readParameters(state.form).parameters,
  })
  return (
    <details className="rounded-md border bg-raised">
      <summary className="px-3 py-2 font-medium">
        Request as code <span className="font-normal text-soft">{isDraft ? 'current draft' : 'last message'}</span>
      </summary>
      <div className="flex flex-col gap-2 border-t p-3">
        <Tabs label="Language" selected={selected} tabs={Object.entries(samples).map(([id, each]) => ({ id, label: each.label }))} />
        <CopyBlock label={`request as ${label}`} text={text} />
      </div>
    </details>
  )
}

interface ComposerProps {
  readonly draft: string
  readonly isBusy: boolean
  /** Why the message cannot be sent; null when it can. */
  readonly obstacle: string | null
  readonly onChange: (draft: string) => void
  readonly onSend: () => void
  readonly onStop: () => void
}

function Composer({ draft, isBusy, obstacle, onChange, onSend, onStop }: ComposerProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  useEffect(() => area.current?.focus(), [])
  const lines = Math.min(8, Math.max(2, draft.split('\n').length))
  const send = (): void => {
    if (obstacle === null && !isBusy && draft.trim() !== '') onSend()
  }
  return (
    <Form aria-label="Composer" onSubmit={send} className="sticky bottom-0 flex flex-col gap-1 border-t bg-paper py-3">
      <div className="flex items-end gap-2">
        <textarea
          ref={area}
          aria-label="Message"
          placeholder="Enter a message. Enter sends, Shift + Enter starts a new line."
          value={draft}
          rows={lines}
          onChange={(event) => onChange(event.target.value)}
          onKeyDown={(event) => {
            // During IME composition Enter confirms the composition.
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
            event.preventDefault()
            send()
          }}
          className="min-h-14 w-full resize-y rounded-md border bg-raised px-3 py-2 text-ink"
        />
        {isBusy ? (
          <Button className="w-20" onClick={onStop}>
            Stop
          </Button>
        ) : (
          <Button type="submit" look="primary" className="w-20" disabled={obstacle !== null || draft.trim() === ''}>
            Send
          </Button>
        )}
      </div>
      <p className="min-h-5 text-[13px] text-wait">{obstacle}</p>
    </Form>
  )
}
