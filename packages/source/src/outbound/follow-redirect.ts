// Where an answer sends a request on to, and what it may take along.
import type { OutboundRequest, OutboundResponse } from './outbound.ts'
import { showUrl, SourceForbidden } from './source-forbidden.ts'

export type Onward = Readonly<{ url: URL; headers: Readonly<Record<string, string>> }>

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const longestLocation = 8192

/** All that another origin needs. Whatever else a caller sends (credentials above all) was meant for the first one. */
const forAnybody: ReadonlySet<string> = new Set(['accept', 'accept-encoding', 'range', 'if-range', 'user-agent'])

/** Null when the answer is the answer. Only what can be asked again without harm is sent on. */
export function followRedirect(
  sent: Onward & Readonly<{ method: NonNullable<OutboundRequest['method']> }>,
  response: Pick<OutboundResponse, 'status' | 'headers'>,
): Onward | null {
  const location = response.headers['location']
  if (!redirects.has(response.status) || location === undefined || (sent.method !== 'GET' && sent.method !== 'HEAD')) return null
  const url = location.length > longestLocation ? null : URL.parse(location, sent.url.href)
  if (url === null) throw new SourceForbidden(`${showUrl(sent.url)} redirects to something that is no URL`)
  if (sent.url.protocol === 'https:' && url.protocol === 'http:')
    throw new SourceForbidden(`${showUrl(sent.url)} redirects from https to plain http`)
  url.hash = ''
  const isSameOrigin = url.origin === sent.url.origin
  // What was left behind once stays behind, also when a later redirect leads back.
  const kept = Object.entries(sent.headers).filter(([name]) => isSameOrigin || forAnybody.has(name.toLowerCase()))
  return { url, headers: Object.fromEntries(kept) }
}
