// Reads GET /api/events as a program would, and keeps what came.
import type { ApiClient } from './api-client.ts'
import { waitFor } from './wait-for.ts'

export interface SeenEvent {
  readonly id: string | null
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}
export interface EventReader extends AsyncDisposable {
  readonly events: readonly SeenEvent[]
  /** The last id that was sent, with an event or alone. */
  lastId(): string | null
  comments(): number
  /** False when the controller ended the stream. */
  isOpen(): boolean
  until(what: string, condition: (event: SeenEvent) => boolean): Promise<SeenEvent>
  close(): Promise<void>
}

export async function readEvents(api: ApiClient, options: { lastEventId?: string } = {}): Promise<EventReader> {
  const response = await api.open('/api/events', options.lastEventId === undefined ? {} : { 'last-event-id': options.lastEventId })
  if (response.status !== 200 || response.body === null) throw new Error(`GET /api/events: ${response.status}`)
  const reader = response.body.getReader()
  const events: SeenEvent[] = []
  const state = { lastId: null as string | null, comments: 0, isOpen: true }
  const reading = (async () => {
    const decoder = new TextDecoder()
    let text = ''
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }))
      if (done) break
      text += decoder.decode(value, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) take(block, events, state)
    }
    state.isOpen = false
  })()
  const close = async (): Promise<void> => {
    await reader.cancel().catch(() => undefined)
    await reading
  }
  await waitFor(() => state.comments > 0 || events.length > 0, { what: 'the event stream to begin' })
  return {
    events,
    lastId: () => state.lastId,
    comments: () => state.comments,
    isOpen: () => state.isOpen,
    until: (what, condition) => waitFor(() => events.find(condition), { what }),
    close,
    [Symbol.asyncDispose]: close,
  }
}

function take(block: string, events: SeenEvent[], state: { lastId: string | null; comments: number }): void {
  const field = (name: string): string | null => new RegExp(`^${name}: ?(.*)$`, 'm').exec(block)?.[1] ?? null
  const [id, data] = [field('id'), field('data')]
  if (id !== null) state.lastId = id
  if (/^:/m.test(block)) state.comments += 1
  if (data !== null) events.push({ id, event: field('event') ?? 'message', data: JSON.parse(data) as SeenEvent['data'] })
}
