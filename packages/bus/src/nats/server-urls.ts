// The URLs of NATS servers, as a list in settings and sessions. They may hold passwords, so no error repeats them.

const schemes = ['nats:', 'tls:']

/** Throws unless all are NATS URLs. */
export function parseServerUrls(list: string): URL[] {
  return list.split(',').map((text) => {
    const url = parse(text)
    if (url === null) throw new Error('a NATS URL looks like nats://host:4222 or tls://host:4222')
    return url
  })
}

export function isNatsUrl(list: string): boolean {
  return list.split(',').every((text) => parse(text) !== null)
}

/** True when all servers are reachable only from this machine. */
export function isOnLoopback(list: string): boolean {
  return list.split(',').every((text) => /^(?:127(?:\.\d{1,3}){3}|\[::1\]|(?:.+\.)?localhost)$/i.test(parse(text)?.hostname ?? ''))
}

/** The same URLs without passwords. */
export function withoutCredentials(list: string): string {
  if (!list.includes('@')) return list
  const bare = list.split(',').map((text) => {
    const url = parse(text)
    return url === null ? '***' : `${url.protocol}//${url.host}`
  })
  return bare.join(',')
}

function parse(text: string): URL | null {
  const trimmed = text.trim()
  const url = URL.parse(trimmed.includes('://') ? trimmed : `nats://${trimmed}`)
  if (url === null || url.hostname === '' || !schemes.includes(url.protocol)) return null
  // A password with a slash would otherwise end up half in the host, half in the path.
  return ['', '/'].includes(url.pathname) && url.search === '' && url.hash === '' ? url : null
}
