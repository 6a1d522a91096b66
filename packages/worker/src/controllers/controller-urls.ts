// The URLs of controllers: the one of `--join`, and those of the cluster's session.

/** `http(s)://host[:port]`; null for anything else. Signatures do not support a path prefix. */
export function controllerOrigin(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return null
  return url.pathname === '/' && url.search === '' && url.hash === '' && url.username === '' && url.password === '' ? url.origin : null
}

/**
 * A controller that listens on loopback reports an address that is wrong on every other machine, where another cluster may
 * answer that does not know this node: such addresses are used only by workers that joined through one.
 */
export function knownControllers(join: string, reported: readonly string[]): readonly [string, ...string[]] {
  const usable = reported
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
