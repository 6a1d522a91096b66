// What processes wrote, as text; followed until the reader goes away.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { gatewayScope, ModelName, ReplicaId } from '@muster/protocol'
import type { Replicas } from '../supervisor/replicas.ts'
import type { Authorise } from './authorise.ts'
import { notFound, refuse } from './respond.ts'

export type LogDeps = Readonly<{ openLog: Replicas['openLog']; authorise: Authorise }>

export async function serveLogs({ openLog, authorise }: LogDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://gateway')
  if (request.method !== 'GET') return notFound(response, pathname)
  if (authorise(request, response, gatewayScope.logs) === null) return
  const model = ModelName.nullable().safeParse(searchParams.get('model'))
  const replicaId = ReplicaId.nullable().safeParse(searchParams.get('replica'))
  if (!model.success || !replicaId.success) return refuse(response, 400, 'invalid', 'model and replica are names of such')
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const follow = searchParams.get('follow') === 'true'
  const stream = openLog({ model: model.data, replicaId: replicaId.data, follow, signal: gone.signal })
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
  response.flushHeaders()
  await pipeline(stream, response).catch(() => response.destroy())
}
