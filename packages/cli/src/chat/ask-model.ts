// One question and its answer: written as it comes, or the whole of it as an object.
import type { IncomingMessage } from 'node:http'
import { inferenceRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ClientCall } from '../commands/client-command.ts'
import type { ChatSettings, Message } from './chat-settings.ts'
import { createLoadingNotice } from './loading-notice.ts'
import { type AnswerPart, readAnswer } from './read-answer.ts'
import { statsText } from './stats-text.ts'
import { waitForModel } from './wait-for-model.ts'

export interface ChatRequest {
  readonly settings: ChatSettings
  readonly messages: readonly Message[]
  readonly signal: AbortSignal
}

/** What came of it; not all when the signal aborted. Throws when it was refused, or cut off. */
export async function streamAnswer(call: ClientCall, question: ChatRequest): Promise<{ text: string; isWhole: boolean }> {
  const { api, print, shell } = call
  const { clock, terminal } = shell
  let text = ''
  let startedAt = 0
  let firstAt: number | null = null

  const begin = (signal: AbortSignal): Promise<IncomingMessage> => {
    startedAt = clock.monotonic()
    const body = { ...requestBody(question), stream: true, stream_options: { include_usage: true } }
    return api.open(inferenceRoutes.chat, { body, headers: { accept: 'text/event-stream' }, signal })
  }
  const write = (piece: string): void => {
    firstAt ??= clock.monotonic()
    text += piece
    terminal.write(terminal.width === null ? piece : stripControls(piece))
  }
  const endLine = (): void => {
    if (text !== '' && !text.endsWith('\n')) terminal.write('\n')
  }
  const finish = ({ finishReason, usage }: Extract<AnswerPart, { kind: 'end' }>): void => {
    if (finishReason === 'length') print.remark('the answer ends here because it has as many tokens as it may have')
    const endedAt = clock.monotonic()
    if (question.settings.hasStats) print.remark(statsText({ usage, startedAt, firstAt: firstAt ?? endedAt, endedAt }))
  }

  try {
    for await (const piece of readAnswer(await sendWhenLoaded(call, question, begin))) {
      if (piece.kind === 'text') {
        write(piece.text)
        continue
      }
      endLine()
      finish(piece)
      return { text, isWhole: true }
    }
  } catch (error) {
    endLine()
    if (!question.signal.aborted) throw error
  }
  return { text, isWhole: false }
}

export async function requestAnswer(call: ClientCall, question: ChatRequest): Promise<unknown> {
  const send = (signal: AbortSignal) => call.api.call(inferenceRoutes.chat, { body: { ...requestBody(question), stream: false }, signal })
  const { raw } = await sendWhenLoaded(call, question, send)
  if (raw === undefined) throw new CliError('what was answered is no JSON')
  return raw
}

const requestBody = ({ settings, messages }: ChatRequest) => ({
  model: settings.model,
  messages: [...settings.system, ...messages],
  ...settings.sampling,
})

function sendWhenLoaded<T>(call: ClientCall, { settings, signal }: ChatRequest, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, terminal } = call.shell
  const notice = createLoadingNotice({ api: call.api, clock, print: call.print, terminal, model: settings.model })
  return waitForModel(send, { clock, notice, waitMs: settings.waitMs, signal })
}

/** Nothing that a terminal would obey, whatever a model says; line breaks and tabs stay. */
const stripControls = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, '')
