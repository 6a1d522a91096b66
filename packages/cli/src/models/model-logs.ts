// What the processes of a model wrote on one node, line by line: what there is, or that and all that comes.
import type { IncomingMessage } from 'node:http'
import { type ModelName, type NodeId, nodeRoutes, createSseParser } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'

export interface LogRequest {
  readonly id: NodeId
  readonly model: ModelName
  readonly isFollowing: boolean
  readonly signal: AbortSignal
}

/** Ends when the signal aborts, and without following when all was read. Throws when what is followed breaks off. */
export async function* logLines(api: Pick<ApiClient, 'open'>, wish: LogRequest): AsyncGenerator<string, void, void> {
  const { id, model, isFollowing, signal } = wish
  try {
    const response = await api.open(nodeRoutes.logs, {
      params: { id },
      query: { model, follow: String(isFollowing) },
      headers: { accept: isFollowing ? 'text/event-stream' : 'text/plain' },
      signal,
    })
    response.setEncoding('utf8')
    yield* isFollowing ? eventLines(response) : textLines(response)
  } catch (error) {
    if (signal.aborted) return
    throw error instanceof CliError ? error : new CliError(`the log broke off: ${error instanceof Error ? error.message : String(error)}`)
  }
  if (isFollowing && !signal.aborted) throw new CliError('the log broke off: the controller ended it')
}

async function* eventLines(response: IncomingMessage): AsyncGenerator<string, void, void> {
  const parser = createSseParser('')
  for await (const chunk of response) for (const { data } of parser.push(String(chunk))) yield* data.split('\n')
}

async function* textLines(response: IncomingMessage): AsyncGenerator<string, void, void> {
  let rest = ''
  for await (const chunk of response) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
