// One request of the OpenAI API, from its model's name to the last byte of its answer.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@muster/host'
import { ModelName } from '@muster/protocol'
import type { Because } from '../routing/choose.ts'
import type { ClientLink } from '../routing/client-link.ts'
import type { Dispatch, DispatchEnd } from '../routing/dispatch.ts'
import type { ReplicaTable, Route } from '../routing/replica-table.ts'
import type { ColdModels } from './cold-models.ts'
import type { ColdRefusal } from './model-watch.ts'
import { Relay } from './relay.ts'
import type { Usage } from './usage.ts'

export interface InferenceCall {
  readonly requestId: string
  readonly model: string
  /** Of the beginning of what is asked. */
  readonly key: number | null
  readonly path: string
  readonly contentType: string
  readonly accept: string
  readonly body: Buffer
  readonly response: ServerResponse
  readonly link: ClientLink
}
/** What is answered by the controller itself. */
export type Refusal = ColdRefusal | { readonly kind: 'unanswered'; readonly why: string; readonly hasBegun: boolean }
export type Outcome = 'ok' | 'error' | 'cut' | 'client_gone' | Refusal['kind']

export interface Served {
  readonly model: string
  /** Null: it reached none. */
  readonly nodeId: string | null
  readonly outcome: Outcome
  readonly ms: number
  /** Until it was sent to a replica for the first time; null when it never was. */
  readonly queueMs: number | null
  /** Why that one. */
  readonly because: Because | null
  /** Until the first byte of an answer; null when there was none. */
  readonly firstByteMs: number | null
  readonly usage: Usage
}
export interface InferenceDeps {
  readonly table: ReplicaTable
  readonly dispatch: Dispatch
  readonly cold: ColdModels
  readonly clock: Clock
  readonly loadWaitMs: number
  readonly exposeRouting: boolean
  readonly errorEvent: (message: string) => string
  /** Somebody asks for that model, until disposed. */
  readonly onAsked: (model: string) => Disposable
  readonly onSend: (route: Route) => Disposable
  readonly onServed: (served: Served) => void
}
export type Inference = ReturnType<typeof createInference>

export function createInference(deps: InferenceDeps) {
  return {
    /** Only for a name that is not known a query is made: whoever makes a model may ask it at once. */
    async isKnown(model: string): Promise<boolean> {
      if (deps.table.find(model) !== undefined) return true
      if (!ModelName.safeParse(model).success) return false
      await deps.table.learn(model)
      return deps.table.find(model) !== undefined
    },
    learn: (model: string): Promise<void> => deps.table.learn(model),
    models: () => deps.table.list(),
    find: (model: string) => deps.table.find(model),
    isReady: (): boolean => deps.table.isLoaded,
    /** Null: the client has its answer, or is gone. Otherwise nothing was sent to it. */
    serve: async (call: InferenceCall): Promise<Refusal | null> => await new Serving(call, deps).run(),
  }
}

/** As `x-muster-reason` says it. */
const reasons: Readonly<Record<Because, string>> = {
  prefix: 'prefix',
  prefix_full: 'prefix: its first choice was full',
  prefix_absent: 'prefix: its first choice does not answer',
  fewest: 'fewest requests under way',
}

class Serving {
  readonly #call: InferenceCall
  readonly #deps: InferenceDeps
  readonly #relay: Relay
  readonly #beganAt: number
  #sentAt: number | null = null
  #first: { readonly at: number; readonly because: Because } | null = null
  #firstByteAt: number | null = null
  #route: Route | null = null
  #tries = 0

  constructor(call: InferenceCall, deps: InferenceDeps) {
    this.#call = call
    this.#deps = deps
    this.#beganAt = deps.clock.monotonic()
    this.#relay = new Relay({
      response: call.response,
      ownHeaders: (route) => this.#ownHeaders(route),
      clock: deps.clock,
      errorEvent: deps.errorEvent,
      onFirstByte: () => (this.#firstByteAt = deps.clock.monotonic()),
    })
  }

  async run(): Promise<Refusal | null> {
    const { dispatch, cold, loadWaitMs, onAsked } = this.#deps
    const { model, key, path, body, link } = this.#call
    using relay = this.#relay
    using _ = onAsked(model)
    const deadline = this.#beganAt + loadWaitMs
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
    this.#tell(end, refusal)
    return refusal
  }

  #outgoingHeaders(): string[] {
    const { contentType, accept, requestId } = this.#call
    return ['content-type', contentType, 'accept', accept, 'x-request-id', requestId]
  }

  #onSend(route: Route, because: Because): Disposable {
    this.#route = route
    this.#sentAt = this.#deps.clock.monotonic()
    this.#first ??= { at: this.#sentAt, because }
    this.#tries += 1
    return this.#deps.onSend(route)
  }

  #ownHeaders(route: Route): string[] {
    const now = this.#deps.clock.monotonic()
    const sentAt = this.#sentAt ?? now
    const timing = `route;dur=${(sentAt - this.#beganAt).toFixed(1)}, backend;dur=${(now - sentAt).toFixed(1)}`
    const always = ['x-request-id', this.#call.requestId, 'server-timing', timing, 'x-content-type-options', 'nosniff']
    if (!this.#deps.exposeRouting) return always
    const reason = this.#tries > 1 ? 'another replica did not answer' : reasons[this.#first?.because ?? 'fewest']
    return [...always, 'x-muster-node', route.nodeId, 'x-muster-replica', route.replicaId, 'x-muster-reason', reason]
  }

  #tell(end: DispatchEnd<ColdRefusal>, refusal: Refusal | null): void {
    const { clock, onServed } = this.#deps
    onServed({
      model: this.#call.model,
      nodeId: this.#route?.nodeId ?? null,
      outcome: refusal?.kind ?? this.#outcomeOf(end),
      ms: clock.monotonic() - this.#beganAt,
      queueMs: this.#first === null ? null : this.#first.at - this.#beganAt,
      because: this.#first?.because ?? null,
      firstByteMs: this.#firstByteAt === null ? null : this.#firstByteAt - this.#beganAt,
      usage: this.#relay.usage(),
    })
  }

  #outcomeOf(end: DispatchEnd<ColdRefusal>): Outcome {
    if (end.kind === 'cut') return 'cut'
    if (end.kind === 'gone') return 'client_gone'
    return (this.#relay.status ?? 0) >= 500 ? 'error' : 'ok'
  }
}

function refusalOf(end: DispatchEnd<ColdRefusal>): Refusal | null {
  if (end.kind === 'none') return end.refusal
  return end.kind === 'unanswered' ? end : null
}
