// A worker reduced to its signature: sends any request of a test to /api/node.
import { createNodeKey, newId, signRequest, type NodeKey } from '@muster/host'
import { createApiClient, type ApiAnswer } from './api-client.ts'

export interface NodeCaller {
  readonly key: NodeKey
  readonly incarnation: string
  /** The time of the signature; now by default. */
  post(path: string, body: unknown, signedAt?: Date): Promise<ApiAnswer>
  register(fields?: Readonly<Record<string, unknown>>, signedAt?: Date): Promise<ApiAnswer>
}

export function createNodeCaller(url: string, key: NodeKey = createNodeKey()): NodeCaller {
  const api = createApiClient(url)
  const incarnation = newId()
  const post: NodeCaller['post'] = async (path, body, signedAt = new Date()) => {
    const raw = JSON.stringify(body)
    const headers = signRequest(key, { method: 'POST', path, body: Buffer.from(raw), now: signedAt })
    return await api.call('POST', path, { raw, headers })
  }
  return {
    key,
    incarnation,
    post,
    register: (fields = {}, signedAt) =>
      post(
        '/api/node/register',
        {
          name: 'test-node',
          public_key: key.publicKey,
          version: '0.0.0',
          features: ['async', 'progress', 'upgrade'],
          os: 'linux',
          arch: 'x64',
          capability: 'default',
          incarnation,
          ...fields,
        },
        signedAt,
      ),
  }
}
