// `muster models logs`: the output of a model's processes, line by line from each node; with --follow until Ctrl-C.
import type { IncomingMessage } from 'node:http'
import { errorMessage } from '@muster/host'
import { createSseParser, type ModelName, modelRoutes, type NodeId, nodeRoutes } from '@muster/protocol'
import { fetchNode } from '../arguments.ts'
import { CliError, reportError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import type { ClientCall } from '../commands/command.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt } from '../shell.ts'

export async function showLogs(call: ClientCall, model: ModelName): Promise<void> {
  const nodes = await findNodes(call, model)
  if (nodes.length === 0) return call.print.remark('no node has logs of this model')
  using interrupted = listenForInterrupt()
  const request = { model, isFollowing: call.flag('follow'), signal: interrupted.signal }
  const longest = Math.max(...nodes.map((node) => node.name.length))
  const show = async (node: NamedNode): Promise<void> => {
    for await (const line of logLines(call.api, { ...request, id: node.id }))
      call.print.line({ node_id: node.id, node_name: node.name, line }, () => {
        return nodes.length === 1 ? plainText(line) : `${plainText(node.name).padEnd(longest)}  ${plainText(line)}`
      })
  }
  // A node that fails does not hide the others.
  await Promise.all(nodes.map((node) => show(node).catch((error: unknown) => reportNodeError(call, node, error))))
}

interface NamedNode {
  readonly id: NodeId
  readonly name: string
}

/** The node of `--node`; else the nodes of its replicas; without replicas, all nodes that may have had one. */
async function findNodes({ api, option }: ClientCall, name: ModelName): Promise<NamedNode[]> {
  const wanted = option('node')
  if (wanted !== undefined) return [await fetchNode(api, wanted)]
  const { replicas } = (await api.call(modelRoutes.replicas, { params: { name } })).body
  const own = new Map(replicas.map((replica) => [replica.node_id, { id: replica.node_id, name: replica.node_name || replica.node_id }]))
  if (own.size > 0) return [...own.values()]
  const { nodes } = (await api.call(nodeRoutes.list)).body
  return nodes.filter((node) => node.node_type === 'backend' && (node.status === 'healthy' || node.status === 'draining'))
}

function reportNodeError({ shell }: ClientCall, node: NamedNode, error: unknown): void {
  if (!(error instanceof CliError)) throw error
  reportError(error.about(plainText(node.name)), shell.terminal)
  shell.fail(1)
}

interface LogRequest {
  readonly id: NodeId
  readonly model: ModelName
  readonly isFollowing: boolean
  readonly signal: AbortSignal
}

/** Ends when the signal aborts or, without following, at the end of the log. Throws when a followed log breaks off. */
async function* logLines(api: Pick<ApiClient, 'open'>, request: LogRequest): AsyncGenerator<string, void, void> {
  const { id, model, isFollowing, signal } = request
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
    throw error instanceof CliError ? error : new CliError(`the log broke off: ${errorMessage(error)}`)
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
