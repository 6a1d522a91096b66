// Which headers pass between a caller and a backend. Flat lists, as node and undici take them: name, value, name, value.

/** Of one connection, not of the message. `expect` is answered by the gateway. */
const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]
/** A backend is told neither who asks nor by which door, and `host` is its own. */
const notForBackends = new Set([...hopByHop, 'host', 'authorization', 'cookie', 'x-api-key', 'forwarded', 'x-forwarded-for', 'x-real-ip'])
/** The page and the API have one origin: a hostile model must not touch their cookies. */
const notForCallers = new Set([...hopByHop, 'set-cookie', 'set-cookie2', 'clear-site-data', 'strict-transport-security'])
/** What only the gateway says. */
const ours = 'x-muster-'

export const toBackend = (raw: readonly string[]): string[] => pass(raw, notForBackends)
export const toCaller = (raw: readonly string[]): string[] => pass(raw, notForCallers)

function pass(raw: readonly string[], banned: ReadonlySet<string>): string[] {
  const named = namedByConnection(raw)
  const passed: string[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name, value] = [raw[at] ?? '', raw[at + 1] ?? '']
    const key = name.toLowerCase()
    if (!banned.has(key) && !named.has(key) && !key.startsWith(ours)) passed.push(name, value)
  }
  return passed
}

/** `Connection: x` makes `X` a header of the connection; lengths are never up to it. */
function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  const named = new Set<string>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    if (raw[at]?.toLowerCase() !== 'connection') continue
    for (const each of (raw[at + 1] ?? '').split(',')) named.add(each.trim().toLowerCase())
  }
  named.delete('content-length')
  named.delete('content-type')
  return named
}
