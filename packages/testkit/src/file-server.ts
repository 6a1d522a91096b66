// A web server on loopback with files from memory, which misbehaves on request.
import type { IncomingMessage } from 'node:http'
import { startLoopbackServer, type LoopbackServer } from './loopback-server.ts'
import { answered, sendBytes, type Behaviour } from './misbehave.ts'
import type { SeenRequest } from './hostile-registry.ts'

export interface ServedFile {
  readonly bytes: Buffer
  /** Without one it has no ETag. */
  readonly etag?: string
}

export interface FileServer extends LoopbackServer {
  readonly requests: readonly SeenRequest[]
  /** By path, from now on. */
  put(path: string, file: ServedFile): void
  /** For requests of this path, until it was used `times` times. The first that fits counts. */
  on(path: string, behaviour: Behaviour, times?: number): void
  /** Requests that it refuses get a 403. */
  guard(accepts: (request: IncomingMessage) => boolean): void
  /** Where each answer for this path began, and how many bytes of it were handed to the network. */
  answersFor(path: string): readonly { readonly from: number; readonly bytes: number }[]
}

export async function startFileServer(): Promise<FileServer> {
  const files = new Map<string, ServedFile>()
  const sent = new Map<string, { from: number; bytes: number }[]>()
  const requests: SeenRequest[] = []
  const rules: { readonly path: string; readonly behaviour: Behaviour; left: number }[] = []
  let accepts: (request: IncomingMessage) => boolean = () => true
  const server = await startLoopbackServer((request, response) => {
    const path = (request.url ?? '/').replace(/\?.*$/, '')
    requests.push({ method: request.method ?? '', path: request.url ?? '/', headers: request.headers })
    request.resume()
    const rule = rules.find((each) => each.left > 0 && each.path === path)
    if (rule !== undefined) rule.left--
    if (rule !== undefined && answered(response, rule.behaviour)) return
    if (!accepts(request)) return void response.writeHead(403).end()
    const file = files.get(path)
    if (file === undefined) return void response.writeHead(404).end()
    const tally = { from: 0, bytes: 0 }
    sent.set(path, [...(sent.get(path) ?? []), tally])
    const behaviour = rule === undefined ? {} : { behaviour: rule.behaviour }
    sendBytes({ request, response, ...file, mediaType: 'application/octet-stream', tally, ...behaviour })
  })
  return {
    ...server,
    requests,
    put: (path, file) => void files.set(path, file),
    on: (path, behaviour, times = Number.POSITIVE_INFINITY) => void rules.push({ path, behaviour, left: times }),
    guard: (guard) => void (accepts = guard),
    answersFor: (path) => sent.get(path) ?? [],
  }
}
