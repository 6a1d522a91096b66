// Where NATS servers are: a list of URLs, as settings and sessions carry it. It may hold passwords, so nothing here repeats it.

const schemes = ['nats:', 'tls:']

/** Throws unless every one of them is a NATS URL. */
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

/** Whether all of them can only be reached from this machine. */
export function isOnLoopback(list: string): boolean {
  return list.split(',').every((text) => /^(?:127(?:\.\d{1,3}){3}|\[::1\]|(?:.+\.)?localhost)$/i.test(parse(text)?.hostname ?? ''))
}

/** The same servers, for whoever may not know how to get in. */
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
  // A password with a slash in it ends up here, and half of it in the host.
  return ['', '/'].includes(url.pathname) && url.search === '' && url.hash === '' ? url : null
}
