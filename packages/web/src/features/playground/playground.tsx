// Ask any model, and see what it takes.
import type { ModelView } from '@muster/protocol'
import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Button } from '../../components/button.tsx'
import { SelectField } from '../../components/field.tsx'
import { stateWords } from './choose-model.ts'
import { Composer } from './composer.tsx'
import { isBusy as isAsking } from './conversation.ts'
import { ParameterPanel } from './parameter-panel.tsx'
import { readParameters } from './parameters.ts'
import { SameRequest } from './same-request.tsx'
import { TurnList } from './turn-list.tsx'
import { usePlayground } from './use-playground.ts'

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
