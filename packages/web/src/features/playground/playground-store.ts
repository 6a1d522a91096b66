// Holds the conversation and runs the pending request, also while another page is shown. Stored in the browser until the tab
// is closed.
import { createContext, useContext, useSyncExternalStore } from 'react'
import { z } from 'zod'
import { saveToSession } from '../../components/storage.ts'
import { requestAnswer, now } from './request-answer.ts'
import { Conversation, type ConversationEvent, isBusy, messagesFor, noConversation, revive, step } from './conversation.pure.ts'
import { noParameters, ParameterForm, readParameters } from './parameters.pure.ts'

const StoredState = z.object({ conversation: Conversation, form: ParameterForm, draft: z.string() })
export type PlaygroundState = z.infer<typeof StoredState>

const storageKey = 'muster.playground'
/** Browsers store about five million characters per site. */
const maxStoredChars = 500_000

export class PlaygroundStore {
  #state: PlaygroundState = { conversation: noConversation, form: noParameters, draft: '' }
  readonly #listeners = new Set<() => void>()
  #request: AbortController | null = null
  #wake: () => void = () => undefined

  constructor() {
    this.#state = readStored() ?? this.#state
    addEventListener('pagehide', () => storeState(this.#state))
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
  readonly state = (): PlaygroundState => this.#state

  readonly setDraft = (draft: string): void => this.#change({ draft })
  readonly setForm = (form: ParameterForm): void => this.#change({ form })

  readonly send = (model: string): void => {
    const { conversation, form, draft: question } = this.#state
    if (isBusy(conversation) || question.trim() === '') return
    const request = new AbortController()
    this.#request = request
    this.#dispatch([{ type: 'submitted', model, question, at: now() }])
    this.#change({ draft: '' })
    const { parameters } = readParameters(form)
    const messages = messagesFor(conversation.turns, { system: form.system, question })
    const turn = this.#state.conversation.turns.at(-1)?.id ?? 0
    const deps = { signal: request.signal, dispatch: this.#dispatch, pause: (ms: number) => this.#pause(ms, request.signal) }
    void requestAnswer({ turn, model, messages, parameters }, deps).finally(() => storeState(this.#state))
  }

  /** Closes the connection, which also stops the backend. */
  readonly stop = (): void => {
    this.#request?.abort()
    const turn = this.#state.conversation.turns.at(-1)?.id
    if (turn !== undefined) this.#dispatch([{ type: 'stopped', turn, at: now() }])
  }

  readonly clear = (): void => {
    this.#request?.abort()
    this.#dispatch([{ type: 'cleared' }])
  }

  /** Moves the last message back into the field. */
  readonly editLast = (): void => {
    const last = this.#state.conversation.turns.at(-1)
    if (last === undefined || isBusy(this.#state.conversation)) return
    this.#dispatch([{ type: 'dropped_last' }])
    this.#change({ draft: last.question })
  }

  readonly regenerateLast = (model: string): void => {
    this.editLast()
    this.send(model)
  }

  /** Ends the pause of a waiting request, because the model changed its state. */
  readonly wake = (): void => this.#wake()

  readonly #dispatch = (events: readonly ConversationEvent[]): void =>
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

function storeState(state: PlaygroundState): void {
  const { turns } = state.conversation
  let chars = 0
  const first = turns.findLastIndex(
    ({ question, answer }) => (chars += question.length + ('text' in answer ? answer.text.length : 0)) > maxStoredChars,
  )
  saveToSession(storageKey, { ...state, conversation: { turns: turns.slice(first + 1) } })
}

function readStored(): PlaygroundState | null {
  try {
    const stored = StoredState.parse(JSON.parse(sessionStorage.getItem(storageKey) ?? ''))
    return { ...stored, conversation: revive(stored.conversation, now()) }
  } catch {
    return null
  }
}

const StoreContext = createContext(new PlaygroundStore())

export function usePlayground(): readonly [PlaygroundState, PlaygroundStore] {
  const store = useContext(StoreContext)
  return [useSyncExternalStore(store.subscribe, store.state), store]
}
