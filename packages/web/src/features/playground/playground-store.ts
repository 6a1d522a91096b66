// Holds the conversation of this page, and runs the question that is under way: it goes on when somebody looks at
// another page meanwhile. The browser keeps it until the tab is closed.
import { createContext, useContext, useSyncExternalStore } from 'react'
import { z } from 'zod'
import { keep } from '../../components/storage.ts'
import { askModel, now } from './ask-model.ts'
import { Conversation, type ConversationEvent, isBusy, messagesFor, noConversation, revive, step } from './conversation.pure.ts'
import { noParameters, ParameterForm, readParameters } from './parameters.pure.ts'

const Kept = z.object({ conversation: Conversation, form: ParameterForm, draft: z.string() })
export type PlaygroundState = z.infer<typeof Kept>

const storageKey = 'muster.playground'
/** Browsers keep five million at most, of all that a page has. */
const maxKeptChars = 500_000

export class PlaygroundStore {
  #state: PlaygroundState = { conversation: noConversation, form: noParameters, draft: '' }
  readonly #listeners = new Set<() => void>()
  #asking: AbortController | null = null
  #wake: () => void = () => undefined

  constructor() {
    this.#state = readKept() ?? this.#state
    addEventListener('pagehide', () => keepState(this.#state))
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
  readonly state = (): PlaygroundState => this.#state

  readonly setDraft = (draft: string): void => this.#change({ draft })
  readonly setForm = (form: ParameterForm): void => this.#change({ form })

  readonly ask = (model: string): void => {
    const { conversation, form, draft: question } = this.#state
    if (isBusy(conversation) || question.trim() === '') return
    const asking = new AbortController()
    this.#asking = asking
    this.#take([{ type: 'asked', model, question, at: now() }])
    this.#change({ draft: '' })
    const { parameters } = readParameters(form)
    const messages = messagesFor(conversation.turns, { system: form.system, question })
    const turn = this.#state.conversation.turns.at(-1)?.id ?? 0
    const deps = { signal: asking.signal, tell: this.#take, pause: (ms: number) => this.#pause(ms, asking.signal) }
    void askModel({ turn, model, messages, parameters }, deps).finally(() => keepState(this.#state))
  }

  /** The connection ends, and with it what the backend does for it. */
  readonly stop = (): void => {
    this.#asking?.abort()
    const turn = this.#state.conversation.turns.at(-1)?.id
    if (turn !== undefined) this.#take([{ type: 'stopped', turn, at: now() }])
  }

  readonly clear = (): void => {
    this.#asking?.abort()
    this.#take([{ type: 'cleared' }])
  }

  /** The last question goes back to where it was written. */
  readonly editLast = (): void => {
    const last = this.#state.conversation.turns.at(-1)
    if (last === undefined || isBusy(this.#state.conversation)) return
    this.#take([{ type: 'dropped_last' }])
    this.#change({ draft: last.question })
  }

  readonly askLastAgain = (model: string): void => {
    this.editLast()
    this.ask(model)
  }

  /** The model is not what it was: whoever waits for it need not wait any longer. */
  readonly wake = (): void => this.#wake()

  readonly #take = (events: readonly ConversationEvent[]): void =>
    this.#change({ conversation: events.reduce(step, this.#state.conversation) })

  #change(changes: Partial<PlaygroundState>): void {
    this.#state = { ...this.#state, ...changes }
    for (const listener of this.#listeners) listener()
  }

  #pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#wake = () => undefined
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal.addEventListener('abort', done)
      this.#wake = done
    })
  }
}

function keepState(state: PlaygroundState): void {
  const { turns } = state.conversation
  let chars = 0
  const first = turns.findLastIndex(
    ({ question, answer }) => (chars += question.length + ('text' in answer ? answer.text.length : 0)) > maxKeptChars,
  )
  keep(storageKey, { ...state, conversation: { turns: turns.slice(first + 1) } })
}

function readKept(): PlaygroundState | null {
  try {
    const kept = Kept.parse(JSON.parse(sessionStorage.getItem(storageKey) ?? ''))
    return { ...kept, conversation: revive(kept.conversation, now()) }
  } catch {
    return null
  }
}

const StoreContext = createContext(new PlaygroundStore())

export function usePlayground(): readonly [PlaygroundState, PlaygroundStore] {
  const store = useContext(StoreContext)
  return [useSyncExternalStore(store.subscribe, store.state), store]
}
