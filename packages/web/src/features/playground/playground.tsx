// Ask any model, and see what it takes.
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import type { ModelView } from '@muster/protocol'
import { Button } from '../../components/button.tsx'
import { CopyBlock } from '../../components/copy.tsx'
import { SelectField, TextArea, TextField } from '../../components/field.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { isLoopback } from '../../format.ts'
import { curlSample, javascriptSample, pythonSample, type Sample } from './code-samples.pure.ts'
import { Composer } from './composer.tsx'
import { TurnList } from './conversation-view.tsx'
import { isBusy as isAsking, messagesFor } from './conversation.pure.ts'
import { describeParameters, noParameters, type ParameterForm, readParameters } from './parameters.pure.ts'
import { type PlaygroundState, usePlayground } from './playground-store.ts'
import { stateWords } from './playground-words.pure.ts'

export interface PlaygroundProps {
  readonly models: readonly ModelView[]
  /** Null: there is none of that name. */
  readonly chosen: ModelView | null
  readonly named: string | undefined
  readonly tab: string
}

export function Playground({ models, chosen, named, tab }: PlaygroundProps) {
  const [state, store] = usePlayground()
  const { conversation, form, draft } = state
  const isBusy = isAsking(conversation)
  useWaking(models, conversation.turns.at(-1)?.model, store.wake)
  const hasErrors = Object.keys(readParameters(form).errors).length > 0
  const obstacle =
    chosen === null
      ? `There is no model ${named ?? ''}: choose another.`
      : hasErrors
        ? 'A parameter is wrong: correct it, or leave it empty.'
        : null
  const name = chosen?.name ?? ''
  return (
    // Down to the very end of the page: where the question is written does not move while an answer grows above it.
    <div className="-mb-5 grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_24rem]">
      <div className="flex min-w-0 flex-col gap-4 lg:order-2">
        <ModelPicker models={models} chosen={chosen} named={named} />
        <ParameterPanel form={form} onChange={store.setForm} />
        <SameRequest state={state} model={chosen?.name ?? named ?? ''} tab={tab} />
        <Button className="self-start" disabled={conversation.turns.length === 0} onClick={store.clear}>
          Clear the conversation
        </Button>
      </div>
      <div className="flex min-h-[calc(100dvh-11rem)] min-w-0 flex-col">
        <div className="flex-1 pb-4">
          {conversation.turns.length === 0 && <p className="text-soft">Nothing was asked yet. What is asked here stays in this tab.</p>}
          <TurnList turns={conversation.turns} isBusy={isBusy} onEdit={store.editLast} onAskAgain={() => store.askLastAgain(name)} />
        </div>
        <Composer
          draft={draft}
          isBusy={isBusy}
          obstacle={obstacle}
          onChange={store.setDraft}
          onSend={() => store.ask(name)}
          onStop={store.stop}
        />
      </div>
    </div>
  )
}

function ModelPicker({ models, chosen, named }: Pick<PlaygroundProps, 'models' | 'chosen' | 'named'>) {
  const navigate = useNavigate()
  const choices = models.map(({ name, state }) => ({ value: name as string, label: `${name} · ${stateWords[state]}` }))
  const missing = chosen === null && named !== undefined ? [{ value: named, label: `${named} · there is none` }] : []
  return (
    <SelectField
      label="Model"
      choices={[...missing, ...choices]}
      value={chosen?.name ?? named ?? ''}
      onChange={(event) =>
        void navigate({ to: '/playground', search: (before) => ({ ...before, model: event.target.value }), replace: true })
      }
    />
  )
}

/** Whoever waits to ask again need not, once the model is up or has failed. */
function useWaking(models: readonly ModelView[], asked: string | undefined, wake: () => void): void {
  const state = models.find(({ name }) => name === asked)?.state
  useEffect(() => {
    if (state === 'ready' || state === 'failed') wake()
  }, [state, wake])
}

const numbers = [
  { field: 'temperature', label: 'Temperature', hint: '0 gives the likeliest answer, 2 the wildest' },
  { field: 'topP', label: 'Top p', hint: 'only the likeliest words that make up this part' },
  { field: 'maxTokens', label: 'Max tokens', hint: 'ends the answer there' },
  { field: 'seed', label: 'Seed', hint: 'the same one gives the same answer, where the backend can' },
] as const

function ParameterPanel({ form, onChange }: { readonly form: ParameterForm; readonly onChange: (form: ParameterForm) => void }) {
  const { errors } = readParameters(form)
  const set = (field: keyof ParameterForm) => (event: { readonly target: { readonly value: string } }) =>
    onChange({ ...form, [field]: event.target.value })
  const summary = describeParameters(form)
  return (
    <details className="rounded-md border bg-raised">
      <summary className="px-3 py-2 font-medium">
        Parameters <span className="font-normal text-soft">{summary === '' ? 'as the backend has them' : summary}</span>
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
        <TextArea label="Stop, one per line" rows={2} value={form.stop} error={errors.stop ?? null} onChange={set('stop')} />
        <Button className="self-start" disabled={summary === '' && Object.keys(errors).length === 0} onClick={() => onChange(noParameters)}>
          Leave all to the backend
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

function SameRequest({ state, model, tab }: { readonly state: PlaygroundState; readonly model: string; readonly tab: string }) {
  const chosen = samples[tab] === undefined ? 'curl' : tab
  const { label, sample } = samples[chosen] ?? { label: 'curl', sample: curlSample }
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
        Same request as code <span className="font-normal text-soft">{isDraft ? 'of what is written' : 'of the last question'}</span>
      </summary>
      <div className="flex flex-col gap-2 border-t p-3">
        <Tabs label="Language" chosen={chosen} tabs={Object.entries(samples).map(([id, each]) => ({ id, label: each.label }))} />
        <CopyBlock label={`request as ${label}`} text={text} />
      </div>
    </details>
  )
}
