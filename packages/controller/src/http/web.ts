// The web UI: static files, open to anyone; the data they show needs a login.
import { route } from '@muster/protocol'
import type { PageFile, PageState } from '../page/page.ts'
import { endpoint, type Call, type Endpoint } from './endpoint.ts'

/** Paths that the UI routes itself. */
const pages = ['/', '/nodes', '/nodes/:id', '/backends', '/models', '/models/:name', '/operations', '/playground', '/settings'] as const
const others = ['/assets/:file', '/before.js', '/mark.svg'] as const

/** No foreign content, no inline scripts, no framing. */
const security = {
  'content-security-policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

export function webEndpoints(current: () => PageState): Endpoint[] {
  const page = pages.map((path) =>
    endpoint(route({ method: 'GET', path, access: 'open', summary: 'The web page', produces: 'text/html' }), async (call) =>
      answer(call, current(), '/index.html'),
    ),
  )
  const files = others.map((path) =>
    endpoint(route({ method: 'GET', path, access: 'open', summary: 'A file of the web page', produces: '*/*' }), async (call) =>
      answer(call, current(), new URL(call.request.url).pathname),
    ),
  )
  return [...page, ...files]
}

/** The UI for a browser at an unknown path, with 404. Null for requests that do not accept HTML. */
export function webFallback(current: () => PageState, { method, url, headers }: Request): Response | null {
  const isPage = !/^\/(?:api|v1)(?:\/|$)/.test(new URL(url).pathname)
  if (method !== 'GET' || !isPage || !(headers.get('accept') ?? '').includes('text/html')) return null
  const page = current()
  const response = answer({ headers }, page, '/index.html')
  return page.state === 'built' ? new Response(response.body, { status: 404, headers: response.headers }) : response
}

function answer(call: Pick<Call<never>, 'headers'>, page: PageState, path: string): Response {
  if (page.state !== 'built') return notYet(page)
  const file = page.files.get(path)
  // A page of an older build requests a file of that build: it has to be reloaded.
  if (file === undefined)
    return new Response('there is no such file; reload the page', { status: 404, headers: { ...security, 'cache-control': 'no-store' } })
  const headers = {
    ...security,
    'content-type': file.type,
    etag: file.etag,
    vary: 'accept-encoding',
    'cache-control': file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
  }
  if (isCached(file, call.headers.get('if-none-match') ?? '')) return new Response(null, { status: 304, headers })
  const { encoding, bytes } = encode(file, call.headers.get('accept-encoding') ?? '')
  return new Response(new Uint8Array(bytes), { headers: encoding === null ? headers : { ...headers, 'content-encoding': encoding } })
}

function encode({ bytes, br, gzip }: PageFile, accepted: string): { encoding: string | null; bytes: Buffer } {
  const isAccepted = (name: string): boolean =>
    accepted.split(',').some((one) => {
      const [coding = '', quality = ''] = one.split(';').map((part) => part.trim())
      return coding === name && !/^q=0(\.0*)?$/.test(quality)
    })
  if (isAccepted('br')) return { encoding: 'br', bytes: br }
  return isAccepted('gzip') ? { encoding: 'gzip', bytes: gzip } : { encoding: null, bytes }
}

/** A proxy that compresses again makes the ETag weak. */
const isCached = ({ etag }: PageFile, ifNoneMatch: string): boolean =>
  ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)

/** A page that reloads every second until the UI is built. */
function notYet(page: Exclude<PageState, { state: 'built' }>): Response {
  const text =
    page.state === 'building'
      ? 'The web UI is being built, once for this version. It opens automatically in a few seconds.'
      : `${page.message}\nThe API and the command line still work. The controller retries automatically.`
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>Muster</title><pre>${escape(text)}</pre>`
  return new Response(html, {
    status: 503,
    headers: { ...security, 'content-type': 'text/html; charset=utf-8', 'retry-after': '1', 'cache-control': 'no-store' },
  })
}

const escape = (text: string): string => text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)
