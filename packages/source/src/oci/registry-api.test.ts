// Which scheme a registry is spoken to with: an outbound that answers as told, because no test can have a public address.
import { Readable } from 'node:stream'
import { silentLog, systemClock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { expect, it } from 'vitest'
import { type Outbound, type OutboundResponse, SourceForbidden } from '../outbound/outbound.ts'
import { noCredentials } from './credentials.ts'
import { parseReference } from './reference.ts'
import { createRegistryApi, type RegistryApi } from './registry-api.ts'

const signal = new AbortController().signal
const reference = parseReference('registry.test/a/b')
const fine = (url: URL): OutboundResponse => ({
  status: 200,
  headers: {},
  url,
  body: Readable.from([]),
  bytes: () => Promise.resolve(Buffer.from('')),
  text: () => Promise.resolve(''),
})
const unavailable = (code: string): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: code }, { cause: Object.assign(new Error(code), { code }) })

function scripted(answer: (url: URL) => OutboundResponse): { api: RegistryApi; asked: string[] } {
  const asked: string[] = []
  const outbound: Outbound = {
    isListed: () => false,
    request: async ({ url }) => {
      asked.push(url.href)
      return await Promise.resolve(answer(url))
    },
  }
  return { api: createRegistryApi({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog }), asked }
}
const send = (api: RegistryApi): Promise<OutboundResponse> => api({ reference, path: 'tags/list', signal })
const fail = (error: Error): never => {
  throw error
}

it('SEC21 a registry is contacted by https', async () => {
  const { api, asked } = scripted(fine)
  await send(api)
  await api({ reference: parseReference('alpine'), path: 'tags/list', signal })
  expect(asked).toEqual(['https://registry.test/v2/a/b/tags/list', 'https://registry-1.docker.io/v2/library/alpine/tags/list'])
})

it('SEC21 a registry without https is contacted by plain http if that is allowed, and from then on', async () => {
  const { api, asked } = scripted((url) => (url.protocol === 'https:' ? fail(unavailable('EPROTO')) : fine(url)))
  await send(api)
  await send(api)
  expect(asked.map((url) => url.slice(0, 6))).toEqual(['https:', 'http:/', 'http:/'])
})

it('SEC21 where plain http is not allowed, the failure explains how to allow it', async () => {
  const { api } = scripted((url) => fail(url.protocol === 'https:' ? unavailable('EPROTO') : new SourceForbidden('plain http')))
  await expect(send(api)).rejects.toMatchObject({
    failure: {
      code: 'invalid',
      retry: 'never',
      message: 'source_forbidden: registry.test does not speak https; to allow plain http: --allow-source registry.test',
    },
  })
})

it.each(['DEPTH_ZERO_SELF_SIGNED_CERT', 'CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'ECONNREFUSED', 'ECONNRESET'])(
  'SEC21 %s is no reason for plain http',
  async (code) => {
    const { api, asked } = scripted(() => fail(unavailable(code)))
    await expect(send(api)).rejects.toThrow(code)
    expect(asked).toHaveLength(1)
  },
)

it('SEC21 a registry that used https is never contacted by plain http', async () => {
  let broken = false
  const { api, asked } = scripted((url) => (broken ? fail(unavailable('EPROTO')) : fine(url)))
  await send(api)
  broken = true
  await expect(send(api)).rejects.toThrow('EPROTO')
  expect(asked.every((url) => url.startsWith('https:'))).toBe(true)
})

it('a registry that has https now is contacted by https again', async () => {
  let hasTls = false
  const { api, asked } = scripted((url) => {
    if ((url.protocol === 'https:') !== hasTls) return fail(unavailable(hasTls ? 'ECONNRESET' : 'EPROTO'))
    return fine(url)
  })
  await send(api)
  hasTls = true
  await expect(send(api)).rejects.toThrow('ECONNRESET')
  await send(api)
  expect(asked.map((url) => url.slice(0, 6))).toEqual(['https:', 'http:/', 'http:/', 'https:'])
})
