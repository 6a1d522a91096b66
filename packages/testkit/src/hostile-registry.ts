// A registry on loopback that serves images from memory and misbehaves on request. A fixture: it knows no uploads,
// no catalogue and no storage, and what it does well a real registry may still do otherwise, which is why the same
// things are also tried against Debian's docker-registry (registry.ts).
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Digest } from '@muster/protocol'
import type { ImageDocument, ImageFixture } from './image-fixture.ts'
import { startLoopbackServer, type LoopbackServer } from './loopback-server.ts'
import { answered, sendBytes, type Behaviour } from './misbehave.ts'

export interface SeenRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
}

export interface Guard {
  /** The value of WWW-Authenticate, or several of them. */
  readonly challenge: string | readonly string[]
  accepts(authorization: string | undefined): boolean
}

export interface HostileRegistry extends LoopbackServer {
  readonly requests: readonly SeenRequest[]
  /** Keeps all documents of the image; the tag, if any, is moved to it. */
  addImage(repository: string, image: ImageFixture, tag?: string): void
  /** An index or any manifest, right or wrong, by its digest and under a tag. */
  addManifest(repository: string, manifest: ImageDocument, tag?: string): void
  addBlob(document: Pick<ImageDocument, 'bytes' | 'digest'>): void
  /** For requests whose path contains the text or matches, until it was used `times` times. The first that fits counts. */
  on(path: string | RegExp, behaviour: Behaviour, times?: number): void
  /** Removes all behaviour set by `on`. */
  behave(): void
  /** Asks for credentials on everything below /v2/. */
  guard(guard: Guard): void
  /** Bytes of bodies handed to the network for this digest, over all answers. What the network lost counts too. */
  bytesSent(digest: Digest): number
  /** Where each answer for this digest began, and how many bytes it had. */
  answersFor(digest: Digest): readonly { readonly from: number; readonly bytes: number }[]
}

type Rule = { readonly path: string | RegExp; readonly behaviour: Behaviour; left: number }
type Sent = { from: number; bytes: number }

export async function startHostileRegistry(options: { tls?: { key: string; cert: string } } = {}): Promise<HostileRegistry> {
  const manifests = new Map<string, ImageDocument>()
  const blobs = new Map<string, Buffer>()
  const sent = new Map<string, Sent[]>()
  const requests: SeenRequest[] = []
  let rules: Rule[] = []
  let guarded: Guard | null = null

  const take = (path: string): Behaviour | undefined => {
    const rule = rules.find((each) => each.left > 0 && (typeof each.path === 'string' ? path.includes(each.path) : each.path.test(path)))
    if (rule !== undefined) rule.left--
    return rule?.behaviour
  }

  const find = (path: string): { bytes: Buffer; mediaType: string; key: string } | null => {
    const [, repository, kind, name] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? []
    if (repository === undefined || name === undefined) return null
    if (kind === 'manifests') {
      const manifest = manifests.get(`${repository} ${name}`)
      return manifest === undefined ? null : { bytes: manifest.bytes, mediaType: manifest.mediaType, key: manifest.digest }
    }
    const bytes = blobs.get(name)
    return bytes === undefined ? null : { bytes, mediaType: 'application/octet-stream', key: name }
  }

  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const path = request.url ?? '/'
    requests.push({ method: request.method ?? '', path, headers: request.headers })
    request.resume()
    const behaviour = take(path)
    if (behaviour !== undefined && answered(response, behaviour)) return
    const plain = path.replace(/\?.*$/, '')
    if (guarded !== null && plain.startsWith('/v2/') && !guarded.accepts(request.headers.authorization)) {
      const { challenge } = guarded
      return void response.writeHead(401, { 'www-authenticate': typeof challenge === 'string' ? challenge : [...challenge] }).end()
    }
    if (plain === '/v2/') return void response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    const found = find(plain)
    if (found === null) return void response.writeHead(404, { 'content-type': 'application/json' }).end('{"errors":[]}')
    const tally: Sent = { from: 0, bytes: 0 }
    sent.set(found.key, [...(sent.get(found.key) ?? []), tally])
    sendBytes({ request, response, ...found, tally, ...(behaviour === undefined ? {} : { behaviour }) })
  }

  const server = await startLoopbackServer(serve, options.tls)
  const addManifest = (repository: string, manifest: ImageDocument, tag?: string): void => {
    for (const name of tag === undefined ? [manifest.digest] : [manifest.digest, tag]) manifests.set(`${repository} ${name}`, manifest)
  }
  return {
    ...server,
    requests,
    addImage(repository, image, tag) {
      addManifest(repository, image.manifest, tag)
      for (const { digest, bytes } of [image.config, ...image.layers]) blobs.set(digest, bytes)
    },
    addManifest,
    addBlob: ({ digest, bytes }) => void blobs.set(digest, bytes),
    on: (path, behaviour, times = Number.POSITIVE_INFINITY) => void rules.push({ path, behaviour, left: times }),
    behave: () => void (rules = []),
    guard: (guard) => void (guarded = guard),
    bytesSent: (digest) => (sent.get(digest) ?? []).reduce((sum, { bytes }) => sum + bytes, 0),
    answersFor: (digest) => sent.get(digest) ?? [],
  }
}
