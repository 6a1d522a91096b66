// Access rights of every route, and the answers to invalid input.
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import {
  adminKey,
  createApiClient,
  createTestDatabase,
  joinToken,
  createNodeCaller,
  makeTempDir,
  startNats,
  startTestController,
  waitFor,
  type ApiClient,
  type TestController,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

let cluster: TestController
const endings: (() => Promise<unknown>)[] = []
const keys: Record<string, string> = {}

beforeAll(async () => {
  const directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  cluster = await startTestController({ directory: directory.path, databaseUrl: database.url })
  endings.push(
    () => cluster.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
  for (const scope of ['inference', 'read', 'admin']) {
    const { body } = await cluster.api.post('/api/keys', { name: `test ${scope}`, scope })
    keys[scope] = String(body['key'])
  }
})
afterAll(async () => {
  for (const end of endings) await end()
})

interface DocumentedRoute {
  readonly method: string
  readonly path: string
  readonly description: string
  /** `localai`: a route for scripts that were written for LocalAI. */
  readonly tags?: readonly string[]
}
async function documentedRoutes(): Promise<DocumentedRoute[]> {
  const { body } = await cluster.api.get('/api/openapi.json')
  const paths = body['paths'] as unknown as Record<string, Record<string, Omit<DocumentedRoute, 'method' | 'path'>>>
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => ({ method: method.toUpperCase(), path, ...about })),
  )
}
/** Expected access without a key and with an inference, a read and an admin key, by the scope of the route. */
const expected: Readonly<Record<string, readonly ('in' | 401 | 403)[]>> = {
  'Open to anyone.': ['in', 'in', 'in', 'in'],
  'Needs a key with the scope inference or admin; open where only this machine can reach it.': ['in', 'in', 'in', 'in'],
  'Needs a key with the scope read or admin; open where only this machine can reach it.': ['in', 'in', 'in', 'in'],
  'Needs a key with the scope read or admin.': [401, 403, 'in', 'in'],
  'Needs a key with the scope admin.': [401, 403, 403, 'in'],
  'Signed by a node with its own key.': [401, 401, 401, 401],
}

describe('SEC9 the route table', () => {
  it('allows each caller exactly the routes of its access', async () => {
    const routes = await documentedRoutes()
    expect(routes.length).toBeGreaterThan(25)
    const callers = [undefined, keys['inference'], keys['read'], keys['admin']].map((key) => createApiClient(cluster.url, key))
    for (const route of routes) {
      const path = route.path.replace('{id}', 'no-such-id').replace('{key}', 'no-such-key')
      for (const [i, caller] of callers.entries()) {
        const want = expected[route.description]?.[i]
        const status = await statusOf(caller, { ...route, path })
        const got = status === 401 || status === 403 ? status : 'in'
        expect(`${route.method} ${route.path} caller ${i}: ${got}`).toBe(`${route.method} ${route.path} caller ${i}: ${want}`)
      }
    }
  })

  it('has only declared routes: unknown paths and methods are refused', async () => {
    expect(await cluster.api.get('/api/nothing')).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } })
    expect(await cluster.api.get('/v1/nothing')).toMatchObject({ status: 404, body: { error: { type: 'invalid_request_error' } } })
    expect(await cluster.api.put('/api/nodes', {})).toMatchObject({ status: 405, body: { error: { code: 'method_not_allowed' } } })
  })
})

describe('unknown fields in bodies of administrators', () => {
  // Their bodies are a file or a record with keys of the caller.
  const foreign = [
    'PUT /api/models/{name}',
    'PUT /api/models/{name}/files/{filename}',
    'PUT /api/nodes/{id}/labels',
    'PATCH /api/nodes/{id}/labels',
  ]

  it('are refused by name on every route', async () => {
    const routes = (await documentedRoutes()).filter(
      ({ method, path, description, tags }) =>
        tags === undefined &&
        description === 'Needs a key with the scope admin.' &&
        ['POST', 'PUT', 'PATCH'].includes(method) &&
        !foreign.includes(`${method} ${path}`),
    )
    expect(routes.length).toBeGreaterThan(12)
    for (const { method, path } of routes) {
      const answer = await cluster.api.call(method, path.replace(/\{\w+\}/g, 'x'), { body: { dry_rum: true } })
      expect({ method, path, ...answer }).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid', message: expect.stringContaining('unknown field "dry_rum"'), details: { param: 'dry_rum' } } },
      })
    }
  })

  it('are ignored on routes of LocalAI, as LocalAI does, and the OpenAPI document says so', async () => {
    const routes = (await documentedRoutes()).filter(({ tags }) => tags !== undefined)
    expect(routes.length).toBeGreaterThan(25)
    expect(new Set(routes.flatMap(({ tags }) => tags ?? []))).toEqual(new Set(['localai']))
    expect((await cluster.api.post('/models/reload', { dry_rum: true })).status).toBe(200)
    const { body } = await cluster.api.get('/api/openapi.json')
    expect(body['tags']).toEqual([{ name: 'localai', description: expect.stringContaining('Unknown fields are ignored') as string }])
  })

  it('are refused with the closest known field, also inside others', async () => {
    expect(await cluster.api.post('/api/backends/upgrades', { dryrun: true })).toMatchObject({
      body: { error: { message: 'unknown field "dryrun"; the closest known field is dry_run' } },
    })
    expect(await cluster.api.post('/api/backends/x/upgrade', { rollout: { canari: 1 } })).toMatchObject({
      body: {
        error: { message: 'unknown field "rollout.canari"; the closest known field is canary', details: { param: 'rollout.canari' } },
      },
    })
    expect(await cluster.api.post('/api/nodes/x/drain', { force: true })).toMatchObject({
      body: { error: { message: 'unknown field "force"; this request takes no fields' } },
    })
  })
})

async function statusOf(caller: ApiClient, route: { method: string; path: string }): Promise<number> {
  if (route.path === '/api/events') {
    const response = await caller.open(route.path)
    await response.body?.cancel()
    return response.status
  }
  // A login is judged by its token alone (see below); without one it is a bad request, and that is `in`.
  const body = route.method === 'GET' || route.method === 'DELETE' ? {} : { body: { wrong: true } }
  return (await caller.call(route.method, route.path, body)).status
}

describe('the description of the API', () => {
  it('lists every status of success, and errors as they are', async () => {
    const { body } = await cluster.api.get('/api/openapi.json')
    expect(body).toMatchObject({
      paths: { '/api/node/register': { post: { responses: { 200: {}, 201: {} } } } },
      components: { schemas: { Error: { properties: { error: { required: ['code', 'message'] } } } } },
    })
  })
})

describe('keys', () => {
  it('without the required scope get an error that names the scope', async () => {
    const refused = (key: string, path: string) => createApiClient(cluster.url, keys[key]).get(path)
    expect(await refused('inference', '/api/nodes')).toMatchObject({
      status: 403,
      body: { error: { message: expect.stringMatching(/scope: read$/) } },
    })
    expect(await refused('read', '/api/keys')).toMatchObject({
      status: 403,
      body: { error: { message: expect.stringMatching(/scope: admin$/) } },
    })
  })

  it('are shown once, listed without their secret, and work until they are revoked', async () => {
    const made = await cluster.api.post('/api/keys', { name: 'ci', scope: 'read' })
    expect(made.status).toBe(201)
    const { id, key } = made.body as unknown as { id: string; key: string }
    const listed = await cluster.api.get('/api/keys')
    expect(listed.text).not.toContain(key)
    expect(listed.body['keys']).toContainEqual(expect.objectContaining({ id, name: 'ci', scope: 'read' }))
    const reader = createApiClient(cluster.url, key)
    expect((await reader.get('/api/nodes')).status).toBe(200)
    expect((await cluster.api.delete(`/api/keys/${id}`)).status).toBe(204)
    await expect.poll(async () => (await reader.get('/api/nodes')).status, { timeout: 3_000 }).toBe(401)
    expect((await cluster.api.delete(`/api/keys/${id}`)).status).toBe(404)
  })

  it('may be keys that clients already have, stored by their hash, once', async () => {
    const secret = 'sk-an-old-key'
    const secret_hash = createHash('sha256').update(secret).digest('hex')
    const made = await cluster.api.post('/api/keys', { name: 'old client', scope: 'read', secret_hash })
    expect(made).toMatchObject({ status: 201, body: { name: 'old client', scope: 'read', key: null } })
    expect((await createApiClient(cluster.url, secret).get('/api/nodes')).status).toBe(200)
    expect((await createApiClient(cluster.url, secret_hash).get('/api/nodes')).status).toBe(401)
    const again = await cluster.api.post('/api/keys', { name: 'other', scope: 'admin', secret_hash })
    expect(again).toMatchObject({ status: 200, body: { id: made.body['id'], name: 'old client', scope: 'read', key: null } })
    for (const wrong of [secret_hash.toUpperCase(), 'abc', 7])
      expect((await cluster.api.post('/api/keys', { name: 'x', scope: 'read', secret_hash: wrong })).status).toBe(400)
    const reader = createApiClient(cluster.url, secret)
    expect((await reader.post('/api/keys', { name: 'x', scope: 'read', secret_hash: 'f'.repeat(64) })).status).toBe(403)
  })

  it('cannot all be removed: the last admin key stays', async () => {
    const { body } = await cluster.api.get('/api/keys')
    const admins = (body['keys'] as unknown as { id: string; scope: string; name: string }[]).filter((key) => key.scope === 'admin')
    for (const { id, name } of admins)
      if (name !== 'MUSTER_ADMIN_KEY') expect((await cluster.api.delete(`/api/keys/${id}`)).status).toBe(204)
    const last = admins.find((key) => key.name === 'MUSTER_ADMIN_KEY')
    expect(await cluster.api.delete(`/api/keys/${last?.id}`)).toMatchObject({ status: 409, body: { error: { code: 'last_admin_key' } } })
  })

  it('are not needed on open routes, and are accepted there, as clients of OpenAI always send one', async () => {
    expect((await createApiClient(cluster.url, 'sk-anything').get('/v1/models')).body).toEqual({ object: 'list', data: [] })
    expect((await createApiClient(cluster.url).get('/v1/models')).body).toEqual({ object: 'list', data: [] })
    expect((await createApiClient(cluster.url, 'sk-anything').get('/api/nodes')).status).toBe(401)
  })
})

describe('a browser', () => {
  const login = async () => {
    const { body } = await cluster.api.post('/api/login-links')
    const link = String(body['url'])
    const answer = await createApiClient(cluster.url).get(link.slice(link.indexOf('/login')))
    return { link, answer, cookie: answer.headers.get('set-cookie') ?? '' }
  }

  it('gets in by a link that works once', async () => {
    const { link, answer, cookie } = await login()
    expect(answer.status).toBe(303)
    expect(cookie).toMatch(/^muster_session=[^;]+; Path=\/; HttpOnly; SameSite=Strict/)
    const again = await createApiClient(cluster.url).get(link.slice(link.indexOf('/login')))
    expect(again).toMatchObject({ status: 401, body: { error: { code: 'login_link_used' } } })
  })

  it('J10 may read with its cookie, and write only from our own page', async () => {
    const { cookie } = await login()
    const session = cookie.split(';')[0] ?? ''
    const anonymous = createApiClient(cluster.url)
    const origin = cluster.url
    const read = (headers: Record<string, string>) =>
      anonymous.get('/api/nodes', { headers: { cookie: session, ...headers } }).then((a) => a.status)
    const write = (headers: Record<string, string>) =>
      anonymous.post('/api/login-links', undefined, { headers: { cookie: session, ...headers } }).then((a) => a.status)
    expect(await read({})).toBe(200)
    expect(await read({ origin })).toBe(200)
    expect(await read({ origin: 'http://evil.example' })).toBe(401)
    expect(await read({ 'sec-fetch-site': 'cross-site' })).toBe(401)
    expect(await write({ origin })).toBe(201)
    expect(await write({})).toBe(401)
    expect(await write({ origin: 'http://evil.example' })).toBe(401)
    expect((await anonymous.post('/api/logout', undefined, { headers: { cookie: session, origin } })).status).toBe(204)
    expect(await read({})).toBe(401)
  })

  const loginByKey = (key: unknown, headers: Record<string, string> = {}) =>
    createApiClient(cluster.url).post('/api/login', { key }, { headers })
  const readWith = async (cookie: string | null) =>
    (await createApiClient(cluster.url).get('/api/nodes', { headers: { cookie: cookie?.split(';')[0] ?? '' } })).status

  it('gets in with an admin key, and out again when that key is revoked', async () => {
    const { body: made } = await cluster.api.post('/api/keys', { name: 'of a browser', scope: 'admin' })
    const answer = await loginByKey(made['key'], { origin: cluster.url, 'sec-fetch-site': 'same-origin' })
    expect(answer.status).toBe(204)
    const cookie = answer.headers.get('set-cookie')
    expect(cookie).toMatch(/^muster_session=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604800$/)
    expect(cookie).not.toContain(String(made['key']))
    expect(await readWith(cookie)).toBe(200)
    const { cookie: byLink } = await login()
    const stream = await createApiClient(cluster.url).open('/api/events', { cookie: cookie?.split(';')[0] ?? '' })
    expect(stream.status).toBe(200)
    expect((await cluster.api.delete(`/api/keys/${String(made['id'])}`)).status).toBe(204)
    await waitFor(async () => (await readWith(cookie)) === 401, { what: 'the session ends with its key' })
    // Its event stream ends too.
    for await (const _ of stream.body ?? []) continue
    expect(await readWith(byLink)).toBe(200)
  })

  it('J10 SEC9 is not let in by a key that is wrong or may not do everything, nor by a page of another origin', async () => {
    expect(await loginByKey(keys['read'])).toMatchObject({
      status: 403,
      body: {
        error: { code: 'forbidden', message: expect.stringMatching(/"test read" has the scope read.* needs one of the scope admin/) },
      },
    })
    expect(await loginByKey('muster_admin_wrong')).toMatchObject({ status: 401, body: { error: { code: 'invalid_key' } } })
    expect(await loginByKey('')).toMatchObject({ status: 400, body: { error: { message: 'key: the key is missing' } } })
    for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }]) {
      const answer = await loginByKey(adminKey, headers)
      expect(answer).toMatchObject({ status: 403, body: { error: { code: 'origin_not_allowed' } } })
      expect(answer.headers.get('set-cookie')).toBeNull()
    }
    // A caller that keeps guessing has to wait, even with the right token.
    const guesses = await Promise.all(Array.from({ length: 25 }, (_, i) => loginByKey(`guess-${i}`)))
    expect(guesses.map(({ status }) => status)).toContain(401)
    const answer = await loginByKey(adminKey)
    expect(answer).toMatchObject({ status: 429, body: { error: { code: 'too_many_failures' } } })
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
  })

  it('J10 of another site cannot use the open /v1', async () => {
    const open = createApiClient(cluster.url)
    expect((await open.get('/v1/models', { headers: { origin: 'http://evil.example' } })).status).toBe(403)
    expect((await open.get('/v1/models', { headers: { origin: cluster.url } })).status).toBe(200)
  })
})

/** Raw bytes to the server; the status of its answer. */
async function raw(text: string): Promise<string> {
  const { hostname, port } = new URL(cluster.url)
  const socket = connect(Number(port), hostname)
  socket.end(text)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  return answer.split('\r\n')[0] ?? ''
}

describe('the settings in force', () => {
  it('SEC26 are listed with their origins, without secrets', async () => {
    const { status, body, text } = await cluster.api.get('/api/settings')
    expect(status).toBe(200)
    const settings = body['settings'] as unknown as { flag: string }[]
    const of = (flag: string) => settings.find((setting) => setting.flag === flag)
    expect(of('port')).toMatchObject({ value: '0', default: '8080', from: 'the command line', is_secret: false })
    expect(of('backend-install-timeout')).toMatchObject({ value: '15m', default: '15m', from: 'default' })
    expect(of('admin-key')).toMatchObject({ value: 'set', default: 'not set', from: 'MUSTER_ADMIN_KEY', is_secret: true })
    expect(of('database-url')).toMatchObject({ value: 'set', from: 'MUSTER_DATABASE_URL' })
    for (const hidden of [adminKey, joinToken, 'postgres://']) expect(text).not.toContain(hidden)
  })
})

describe('bad input', () => {
  const call = (path: string, options: Parameters<ApiClient['call']>[2], method = 'POST') => cluster.api.call(method, path, options)
  let id = ''
  beforeAll(async () => {
    // The bus is in the process, so nobody can join; a node of our own stands for all.
    id = 'n-unknown'
  })

  it.each<[string, () => Promise<{ status: number; text: string }>, number, string]>([
    ['malformed JSON', () => call('/api/keys', { raw: '{"name":' }), 400, 'not JSON'],
    ['invalid UTF-8', () => call('/api/keys', { raw: new Uint8Array([0x22, 0xff, 0x22]) }), 400, 'not JSON'],
    ['a body that is no object', () => call('/api/keys', { raw: '[1]' }), 400, 'invalid'],
    ['a field of the wrong type', () => call('/api/keys', { body: { name: 5, scope: 'read' } }), 400, 'name'],
    ['an unknown scope', () => call('/api/keys', { body: { name: 'x', scope: 'root' } }), 400, 'scope'],
    ['a body of 20 MB', () => call('/api/keys', { raw: 'x'.repeat(20e6) }), 413, 'too_large'],
    [
      'another media type',
      () => call('/api/keys', { raw: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
      415,
      'application/json',
    ],
    ['an unknown node', () => call('/api/nodes/n-unknown', {}, 'GET'), 404, 'GET /api/nodes'],
    ['an invalid node id', () => call('/api/nodes/No_Such!', {}, 'GET'), 400, 'node id'],
    ['approving an unknown node', () => call('/api/nodes/n-unknown/approve', {}), 404, 'node n-unknown does not exist'],
    ['draining an unknown node', () => call('/api/nodes/n-unknown/drain', {}), 404, 'node n-unknown does not exist'],
    ['removing an unknown node', () => call('/api/nodes/n-unknown', {}, 'DELETE'), 404, 'node n-unknown does not exist'],
    ['an invalid label', () => call(`/api/nodes/${id}/labels`, { body: { '-bad': 'x' } }, 'PATCH'), 400, 'label key'],
    ['an automatic label', () => call(`/api/nodes/${id}/labels`, { body: { 'node.os': 'x' } }, 'PATCH'), 400, 'set by Muster'],
    ['removing an automatic label', () => call(`/api/nodes/${id}/labels/node.os`, {}, 'DELETE'), 400, 'set by Muster'],
    ['too long a label', () => call(`/api/nodes/${id}/labels`, { body: { a: 'x'.repeat(256) } }, 'PUT'), 400, 'label value'],
    ['a label with a line break', () => call(`/api/nodes/${id}/labels`, { body: { a: 'x\ny' } }, 'PUT'), 400, 'label value'],
    ['an invalid budget', () => call(`/api/nodes/${id}/vram-budget`, { body: { value: 'lots' } }, 'PUT'), 400, 'budget'],
    ['a name with a NUL', () => call('/api/keys', { body: { name: 'a\u0000b', scope: 'read' } }), 400, 'control characters'],
    ['a key id with a NUL', () => call('/api/keys/%00', {}, 'DELETE'), 400, 'key id'],
    ['prototype pollution', () => call('/api/keys', { raw: '{"__proto__":{"name":"x","scope":"admin"}}' }), 400, 'invalid'],
  ])('%s', async (_, send, status, words) => {
    const answer = await send()
    expect(answer.status).toBe(status)
    expect(answer.text).toContain(words)
  })

  it.each([
    ['a name with control characters', { name: 'a\u001b[31m' }],
    ['an empty name', { name: '' }],
    ['a name of 300 characters', { name: 'x'.repeat(300) }],
    ['a node type that there is not', { node_type: 'boss' }],
    ['a gateway that is not a URL', { gateway_url: 'file:///etc/passwd' }],
    ['too many labels', { labels: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`l${i}`, 'x'])) }],
    ['an incarnation with a dot', { incarnation: 'a.b' }],
    ['a NUL in its version', { version: '1\u0000' }],
    ['half a character in its system', { os: '\ud800' }],
  ])('a registration with %s', async (_, fields) => {
    const answer = await createNodeCaller(cluster.url).register({ token: joinToken, ...fields })
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid' } } })
  })

  it('J5 guessing join tokens is slowed down', async () => {
    const statuses: number[] = []
    for (let i = 0; i < 25; i += 1) statuses.push((await createNodeCaller(guarded.url).register({ token: `guess-${i}` })).status)
    expect(statuses[0]).toBe(401)
    expect(statuses.at(-1)).toBe(429)
  })

  it.each([
    ['a wrong Host', 'GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n', '403'],
    [
      'a wrong Host with a key',
      `GET /api/nodes HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer ${adminKey}\r\nConnection: close\r\n\r\n`,
      '403',
    ],
    ['no Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', '400'],
    ['G20 two lengths', 'POST /api/keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', '400'],
    [
      'G20 a length and chunks',
      'POST /api/keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      '400',
    ],
    ['headers of 20 kB', `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, '431'],
    ['no HTTP at all', 'hello\r\n\r\n', '400'],
  ])('%s', async (_, bytes, status) => {
    expect(await raw(bytes)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  })

  it('leaves the controller as it was', async () => {
    expect((await cluster.api.get('/readyz')).status).toBe(200)
    expect((await cluster.api.get('/api/nodes')).body).toEqual({ nodes: [] })
  })
})

let guarded: TestController
beforeAll(async () => {
  const directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const nats = await startNats()
  guarded = await startTestController({ directory: directory.path, databaseUrl: database.url, flags: { 'nats-url': nats.url } })
  endings.push(
    () => guarded.stop(),
    () => nats.stop(),
    () => database.drop(),
    () => directory.remove(),
  )
})

describe('behind a proxy', () => {
  it('a loopback address with a public URL is not open: public routes need a key', async () => {
    const directory = await makeTempDir()
    const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
    await using proxied = await startTestController({
      directory: directory.path,
      databaseUrl: database.url,
      flags: { 'public-url': 'https://muster.example' },
    })
    expect((await createApiClient(proxied.url).get('/v1/models')).status).toBe(401)
    expect((await createApiClient(proxied.url).get('/metrics')).status).toBe(401)
    expect((await createApiClient(proxied.url).get('/healthz')).status).toBe(200)
    expect((await proxied.api.get('/v1/models')).status).toBe(200)
    await proxied.stop()
    await database.drop()
    await directory.remove()
  })
})

describe('health', () => {
  it('answers without a key, and without detail', async () => {
    const open = createApiClient(cluster.url)
    expect((await open.get('/healthz')).body).toEqual({ status: 'ok' })
    expect((await open.get('/readyz')).body).toEqual({ status: 'ok' })
    expect(Object.keys((await open.get('/version')).body)).toEqual(['version'])
    expect((await open.get('/metrics')).text).toMatch(/muster_nodes\{status="healthy"\} 0/)
  })
})
