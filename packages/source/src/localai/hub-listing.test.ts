import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Secret, silentLog, systemClock } from '@muster/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOutbound } from '../outbound/create-outbound.ts'
import { createListRepository } from './hub-listing.ts'

const commit = 'c'.repeat(40)
const lfs = { oid: 'a'.repeat(64), size: 5_000_000_000, pointerSize: 135 }
/** The answers of the hub, by path. */
const answers: Record<string, { readonly body: unknown; readonly next?: string }> = {
  '/api/models/o/n/revision/main': { body: { id: 'o/n', sha: commit, siblings: [] } },
  [`/api/models/o/n/tree/${commit}?recursive=true`]: {
    body: [
      { type: 'directory', oid: 'd'.repeat(40), size: 0, path: 'sub' },
      { type: 'file', oid: 'e'.repeat(40), size: 12, path: 'config.json' },
    ],
    next: `/api/models/o/n/tree/${commit}?recursive=true&cursor=2`,
  },
  [`/api/models/o/n/tree/${commit}?recursive=true&cursor=2`]: {
    body: [{ type: 'file', oid: 'f'.repeat(40), size: 5_000_000_000, path: 'sub/w.safetensors', lfs }],
  },
  '/api/models/o/odd/revision/main': { body: { sha: 'not a commit' } },
  '/api/models/o/loop/revision/main': { body: { sha: commit } },
  [`/api/models/o/loop/tree/${commit}?recursive=true`]: { body: [], next: `/api/models/o/loop/tree/${commit}?recursive=true` },
  '/api/models/o/away/revision/main': { body: { sha: commit } },
  [`/api/models/o/away/tree/${commit}?recursive=true`]: { body: [], next: 'http://192.0.2.1/stolen' },
}
let server: Server
let endpoint = ''
let tokens: (string | undefined)[] = []

beforeAll(async () => {
  server = createServer((request, response) => {
    tokens.push(request.headers.authorization)
    const answer = answers[request.url ?? '']
    if (request.url?.includes('gated') === true) return response.writeHead(401).end()
    if (answer === undefined) return response.writeHead(404).end()
    const link = answer.next === undefined ? {} : { link: `<${new URL(answer.next, endpoint).href}>; rel="next"` }
    response.writeHead(200, { 'content-type': 'application/json', ...link }).end(JSON.stringify(answer.body))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})
afterAll(() => server.close())

const list = (repository: string, { allow = ['127.0.0.1'], token = null }: { allow?: string[]; token?: Secret | null } = {}) =>
  createListRepository({
    outbound: createOutbound({ allow, clock: systemClock, log: silentLog }),
    ...{ endpoint, token, clock: systemClock, log: silentLog },
  })({ repository, revision: 'main' }, AbortSignal.timeout(20_000))

describe('a repository of Hugging Face', () => {
  it('is listed at its commit, page by page, with the hashes that the hub knows', async () => {
    tokens = []
    expect(await list('o/n', { token: new Secret('hf_secret') })).toEqual({
      commit,
      files: [
        { path: 'config.json', size: 12, sha256: null },
        { path: 'sub/w.safetensors', size: 5_000_000_000, sha256: lfs.oid },
      ],
    })
    expect(new Set(tokens)).toEqual(new Set(['Bearer hf_secret']))
  })

  it.each<[string, string, RegExp]>([
    ['does not exist', 'o/gone', /the repository o\/gone at main does not exist/],
    ['wants a login', 'o/gated', /--hf-token/],
    ['answers in another form', 'o/odd', /an answer of another form/],
    ['has pages without end', 'o/loop', /too many files/],
  ])('that %s is refused with the reason', async (_, repository, reason) => {
    await expect(list(repository)).rejects.toThrow(reason)
  })

  it('H19 leads to no other server: the token stays here', async () => {
    expect(await list('o/away')).toEqual({ commit, files: [] })
  })

  it('H19 is not listed at an address of this machine that is not allowed', async () => {
    await expect(list('o/n', { allow: [] })).rejects.toThrow('source_forbidden')
  })
})
