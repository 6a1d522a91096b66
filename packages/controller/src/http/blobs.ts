// GET /api/node/:id/blobs/:digest: what comes with Muster, to nodes that were let in.
import { Readable } from 'node:stream'
import { nodeAgentRoutes as routes } from '@muster/protocol'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { NodeStore } from '../store/nodes.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'
import { parseRange } from './range.ts'

export function blobEndpoints({ nodes, builtin }: { nodes: NodeStore; builtin: Promise<BuiltinBlobs> }): Endpoint[] {
  return [
    endpoint(routes.blob, async ({ params, signer, headers, signal }) => {
      const node = await nodes.find(params.id)
      if (node === null || node.publicKey !== signer?.key) throw notFound('this key belongs to no node here: register again')
      if (node.approvedAt === null) throw new HttpError(403, 'not_approved', 'an administrator has not let this node in yet')
      const blobs = await builtin
      const size = await blobs.size(params.digest)
      if (size === null) throw notFound(`this controller does not have ${params.digest}; one of another version may`)
      const range = parseRange(headers.get('range'), size)
      if (range === 'unsatisfiable') {
        throw new HttpError(416, 'range_not_satisfiable', `${params.digest} has ${size} bytes`, {
          headers: { 'content-range': `bytes */${size}` },
        })
      }
      const { start, end } = range ?? { start: 0, end: size - 1 }
      const answer = {
        'content-type': 'application/octet-stream',
        'content-length': String(end - start + 1),
        'accept-ranges': 'bytes',
        etag: `"${params.digest}"`,
        // It can't change: its name is its digest.
        'cache-control': 'private, max-age=31536000, immutable',
        ...(range === null ? {} : { 'content-range': `bytes ${start}-${end}/${size}` }),
      }
      const status = range === null ? 200 : 206
      if (size === 0) return new Response(null, { status, headers: answer })
      const stream = blobs.open(params.digest, { start, end })
      signal.addEventListener('abort', () => stream.destroy(), { once: true })
      return new Response(Readable.toWeb(stream) as ReadableStream<Uint8Array>, { status, headers: answer })
    }),
  ]
}
