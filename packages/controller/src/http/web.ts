// The web page: static files, open to anyone (what they show needs a login).
import { route } from '@muster/protocol'
import type { PageFile, PageState } from '../page/page-files.ts'
import { endpoint, type Call, type Endpoint } from './endpoint.ts'

/** Addresses of the page; it finds out by itself what each of them shows. */
const pages = ['/', '/nodes', '/nodes/:id', '/backends', '/models', '/models/:name', '/operations', '/playground', '/settings'] as const
const others = ['/assets/:file', '/before.js', '/mark.svg'] as const

/** Nothing from elsewhere, nothing inline, no frame around it. */
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

/** For a browser that is at an address of nothing: the page, which says so. Null for whoever wants something else. */
export function webElsewhere(current: () => PageState, { method, url, headers }: Request): Response | null {
  const isPage = !/^\/(?:api|v1)(?:\/|$)/.test(new URL(url).pathname)
  if (method !== 'GET' || !isPage || !(headers.get('accept') ?? '').includes('text/html')) return null
  const page = current()
  const found = answer({ headers }, page, '/index.html')
  return page.state === 'built' ? new Response(found.body, { status: 404, headers: found.headers }) : found
}

function answer(call: Pick<Call<never>, 'headers'>, page: PageState, path: string): Response {
  if (page.state !== 'built') return notYet(page)
  const file = page.files.get(path)
  // An older page asks for a file of its own build: it has to be loaded anew.
  if (file === undefined)
    return new Response('there is no such file; reload the page', { status: 404, headers: { ...security, 'cache-control': 'no-store' } })
  const headers = {
    ...security,
    'content-type': file.type,
    etag: file.etag,
    vary: 'accept-encoding',
    'cache-control': file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache',
  }
  if (isKnown(file, call.headers.get('if-none-match') ?? '')) return new Response(null, { status: 304, headers })
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

/** A proxy that packs anew makes a weak one of it. */
const isKnown = ({ etag }: PageFile, known: string): boolean => known.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)

/** A page that asks again by itself: nobody has to know that there is something to wait for. */
function notYet(page: Exclude<PageState, { state: 'built' }>): Response {
  const words =
    page.state === 'building'
      ? 'This page is being built, once for this version. It opens by itself in a few seconds.'
      : `${page.message}\nThe API and the command line work all the same. The controller tries again by itself.`
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>Muster</title><pre>${escape(words)}</pre>`
  return new Response(html, {
    status: 503,
    headers: { ...security, 'content-type': 'text/html; charset=utf-8', 'retry-after': '1', 'cache-control': 'no-store' },
  })
}

const escape = (text: string): string => text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)
