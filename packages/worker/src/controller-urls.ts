// Where controllers answer: the one that was named, and those that the cluster told of.

/** `http(s)://host[:port]`; null for anything else. A path would not survive the signature. */
export function controllerOrigin(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return null
  return url.pathname === '/' && url.search === '' && url.hash === '' && url.username === '' && url.password === '' ? url.origin : null
}

/**
 * A controller that listens on loopback tells of an address that means another machine elsewhere,
 * where another cluster may answer and know nothing of this node: such addresses are for those who
 * joined through one.
 */
export function knownControllers(join: string, told: readonly string[]): readonly [string, ...string[]] {
  const usable = told
    .map(controllerOrigin)
    .filter((origin) => origin !== null)
    .filter((origin) => isLoopback(join) || !isLoopback(origin))
  return [join, ...new Set(usable.filter((origin) => origin !== join))]
}

function isLoopback(origin: string): boolean {
  const { hostname } = new URL(origin)
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    hostname.startsWith('127.') ||
    hostname === '0.0.0.0'
  )
}
