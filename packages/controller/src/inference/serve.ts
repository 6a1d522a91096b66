// Serves one request of the OpenAI API, from its model's name to the last byte of the response.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@muster/host'
import { ModelName } from '@muster/protocol'
import type { ChoiceReason } from '../routing/replica-choice.pure.ts'
import type { ClientLink } from '../routing/attempt.ts'
import type { Dispatch, DispatchEnd } from '../routing/dispatch.ts'
import type { ReplicaTable, Route } from '../routing/replica-table.ts'
import type { ColdModels, ColdRefusal } from './cold-models.ts'
import { type NamedOutcome, outcomeOf } from './outcome.pure.ts'
import { Relay } from './relay.ts'
import type { Usage } from './usage.ts'

export interface InferenceCall {
  readonly requestId: string
  readonly model: string
  /** Hash of the prompt's beginning. */
  readonly key: number | null
  readonly path: string
  readonly contentType: string
  readonly accept: string
  readonly body: Buffer
  readonly response: ServerResponse
  readonly link: ClientLink
}
/** Outcomes that the controller itself responds to. */
export type Refusal = ColdRefusal | { readonly kind: 'unanswered'; readonly why: string; readonly hasBegun: boolean }

export interface ServedRequest extends NamedOutcome {
  readonly model: string
  /** Null: the request reached no node. */
  readonly nodeId: string | null
  readonly ms: number
  /** Until the first attempt; null: none was made. */
  readonly queueMs: number | null
  /** Why the first replica was chosen. */
  readonly because: ChoiceReason | null
  /** Until the first token; null: none came. */
  readonly firstTokenMs: number | null
  /** The same from the last attempt on: the time in the engine's queue, and for the prompt. */
  readonly engineMs: number | null
  readonly usage: Usage
}
export interface InferenceDeps {
  readonly table: ReplicaTable
  readonly dispatch: Dispatch
  readonly cold: ColdModels
  readonly clock: Clock
  /** Read for each request, as is `exposeRouting`. */
  readonly loadWaitMs: number
  readonly exposeRouting: boolean
  /** Sends the node in LocalAI's header too. */
  readonly exposeNodeHeader: boolean
  readonly errorEvent: (message: string) => string
  /** A request for the model is open until the result is disposed. */
  readonly onRequest: (model: string) => Disposable
  readonly onSend: (route: Route) => Disposable
  readonly onServed: (served: ServedRequest) => void
}
export type Inference = ReturnType<typeof createInference>

export function createInference(deps: InferenceDeps) {
  return {
    /** Queries the database only for an unknown name, so that a model can be used right after its creation. */
    async isKnown(model: string): Promise<boolean> {
      if (deps.table.find(model) !== undefined) return true
      if (!ModelName.safeParse(model).success) return false
      await deps.table.refresh(model)
      return deps.table.find(model) !== undefined
    },
    refreshRoutes: (model: string): Promise<void> => deps.table.refresh(model),
    models: () => deps.table.list(),
    find: (model: string) => deps.table.find(model),
    isReady: (): boolean => deps.table.isLoaded,
    /** Null: the response was sent, or the client is gone. Otherwise nothing was sent. */
    serve: async (call: InferenceCall): Promise<Refusal | null> => await new RequestRun(call, deps).run(),
  }
}

/** Values of the header `x-muster-reason`. */
const reasons: Readonly<Record<ChoiceReason, string>> = {
  prefix: 'prefix',
  prefix_full: 'prefix: its first choice was full',
  prefix_absent: 'prefix: its first choice does not answer',
  fewest: 'fewest requests under way',
}

class RequestRun {
  readonly #call: InferenceCall
  readonly #deps: InferenceDeps
  readonly #relay: Relay
  readonly #startedAt: number
  #sentAt: number | null = null
  #first: { readonly at: number; readonly because: ChoiceReason } | null = null
  #firstTokenAt: number | null = null
  #route: Route | null = null
  #tries = 0

  constructor(call: InferenceCall, deps: InferenceDeps) {
    this.#call = call
    this.#deps = deps
    this.#startedAt = deps.clock.monotonic()
    this.#relay = new Relay({
      response: call.response,
      ownHeaders: (route) => this.#ownHeaders(route),
      clock: deps.clock,
      errorEvent: deps.errorEvent,
      onFirstToken: () => (this.#firstTokenAt ??= deps.clock.monotonic()),
    })
  }

  async run(): Promise<Refusal | null> {
    const { dispatch, cold, loadWaitMs, onRequest } = this.#deps
    const { model, key, path, body, link } = this.#call
    using relay = this.#relay
    using _ = onRequest(model)
    const deadline = this.#startedAt + loadWaitMs
    const end = await dispatch.send<ColdRefusal>({
      model,
      key,
      link,
      sink: relay,
      outgoing: { path, body, headers: this.#outgoingHeaders() },
      whenNone: (isRoutable) => cold.wait(model, { isRoutable, link, deadline }),
      onSend: (route, because) => this.#onSend(route, because),
    })
    const refusal = refusalOf(end)
    this.#report(end)
    return refusal
  }

  #outgoingHeaders(): string[] {
    const { contentType, accept, requestId } = this.#call
    return ['content-type', contentType, 'accept', accept, 'x-request-id', requestId]
  }

  #onSend(route: Route, because: ChoiceReason): Disposable {
    this.#route = route
    this.#sentAt = this.#deps.clock.monotonic()
    this.#first ??= { at: this.#sentAt, because }
    this.#tries += 1
    return this.#deps.onSend(route)
  }

  #ownHeaders(route: Route): string[] {
    const now = this.#deps.clock.monotonic()
    const sentAt = this.#sentAt ?? now
    const timing = `route;dur=${(sentAt - this.#startedAt).toFixed(1)}, backend;dur=${(now - sentAt).toFixed(1)}`
    const always = ['x-request-id', this.#call.requestId, 'server-timing', timing, 'x-content-type-options', 'nosniff']
    if (this.#deps.exposeNodeHeader) always.push('X-LocalAI-Node', route.nodeId)
    if (!this.#deps.exposeRouting) return always
    const reason = this.#tries > 1 ? 'another replica did not answer' : reasons[this.#first?.because ?? 'fewest']
    return [...always, 'x-muster-node', route.nodeId, 'x-muster-replica', route.replicaId, 'x-muster-reason', reason]
  }

  #report(end: DispatchEnd<ColdRefusal>): void {
    const { clock, onServed } = this.#deps
    const firstTokenAt = this.#firstTokenAt
    onServed({
      ...outcomeOf(end),
      model: this.#call.model,
      nodeId: this.#route?.nodeId ?? null,
      ms: clock.monotonic() - this.#startedAt,
      queueMs: this.#first === null ? null : this.#first.at - this.#startedAt,
      because: this.#first?.because ?? null,
      firstTokenMs: firstTokenAt === null ? null : firstTokenAt - this.#startedAt,
      engineMs: firstTokenAt === null || this.#sentAt === null ? null : firstTokenAt - this.#sentAt,
      usage: this.#relay.usage(),
    })
  }
}

function refusalOf(end: DispatchEnd<ColdRefusal>): Refusal | null {
  if (end.kind === 'none') return end.refusal
  return end.kind === 'unanswered' ? end : null
}
