// Decides where a request may go: checks the URL first, then every address behind its name. The result is the list of
// addresses to connect to; the name is not looked up again, so it cannot resolve to something else later.
import { isIP } from 'node:net'
import { type AllowList, canonicalName } from './allow-list.ts'
import { type AddressClass, classifyAddress, parseIpAddress } from './classify-address.ts'
import { formatUrl, SourceForbidden } from './outbound.ts'

/** All addresses of a name, as text. */
export type Lookup = (name: string) => Promise<readonly string[]>

export type Target = Readonly<{ url: URL; host: string; port: number; addresses: readonly string[] }>

/** The kinds of addresses that a listed name may have. All others (metadata services above all) need the address itself in the list. */
const openToListedNames: ReadonlySet<AddressClass> = new Set(['loopback', 'private', 'shared', 'link-local'])

/** The kinds that an error may advise to allow: a source that leads elsewhere is an attack or a mistake, not a missing setting. */
const advisable: ReadonlySet<AddressClass> = new Set(['loopback', 'private', 'shared'])

/** Metadata services, which return the credentials of the machine; also refused by name, for a clear reason. */
const metadataNames: ReadonlySet<string> = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
])

const mostAddresses = 64

interface TargetRules {
  readonly allow: AllowList
  readonly lookup: Lookup
  /** The URL that redirects here. */
  readonly redirectedFrom?: URL
}

export async function checkTarget(url: URL, { allow, lookup, redirectedFrom }: TargetRules): Promise<Target> {
  const mayAdvise = redirectedFrom === undefined || hasUrl(allow, redirectedFrom)
  const rules = { allow, advice: mayAdvise ? `; to allow it: --allow-source ${url.host}` : '' }
  try {
    const { host, port } = checkUrl(url, rules)
    const addresses = isIP(host) === 0 ? [...new Set(await lookup(host))] : [host]
    if (addresses.length > mostAddresses) throw new SourceForbidden(`${host} has ${addresses.length} addresses`)
    for (const address of addresses) checkAddress({ url, host, port, address }, rules)
    return { url, host, port, addresses }
  } catch (error) {
    if (!(error instanceof SourceForbidden) || redirectedFrom === undefined) throw error
    throw new SourceForbidden(`${error.reason} (${formatUrl(redirectedFrom)} redirects there)`)
  }
}

/** `advice`: how to allow the target; empty for the target of a redirect by a host that no operator listed. */
type Rules = Readonly<{ allow: AllowList; advice: string }>

function checkUrl(url: URL, { allow }: Rules): { host: string; port: number } {
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new SourceForbidden(`${url.protocol}//… is not a way to fetch anything; use https`)
  if (url.username !== '' || url.password !== '') throw new SourceForbidden(`${formatUrl(url)} carries a user name or password`)
  const name = canonicalName(url)
  const host = name.replace(/^\[(.*)\]$/, '$1')
  const port = portOf(url)
  if (port === 0) throw new SourceForbidden(`${formatUrl(url)} has no port to connect to`)
  if (metadataNames.has(name) && !allow.hasName(name, port)) throw new SourceForbidden(`${name} is a metadata service, not a source`)
  return { host, port }
}

function checkAddress(at: { url: URL; host: string; port: number; address: string }, { allow, advice }: Rules): void {
  const { url, host, port, address } = at
  const ip = parseIpAddress(address)
  if (ip === null) throw new SourceForbidden(`${host} has the address "${address}", which is none`)
  if (allow.hasAddress(ip, port)) return
  const isNamed = allow.hasName(host, port)
  const is = classifyAddress(ip)
  if (is !== 'public' && !(isNamed && openToListedNames.has(is))) {
    const where = address === host ? `${host} is` : `${host} is at ${address},`
    const article = is === 'unspecified' ? 'an' : 'a'
    throw new SourceForbidden(`${where} ${article} ${is} address${advisable.has(is) ? advice : ', not a source'}`)
  }
  if (url.protocol === 'http:' && !isNamed) throw new SourceForbidden(`${formatUrl(url)} is plain http${advice}`)
}

const portOf = ({ port, protocol }: URL): number => Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port)

/** True when the host of this URL is listed, by name or by address. */
export function hasUrl(allow: AllowList, url: URL): boolean {
  const name = canonicalName(url)
  const address = parseIpAddress(name.replace(/^\[(.*)\]$/, '$1'))
  return address === null ? allow.hasName(name, portOf(url)) : allow.hasAddress(address, portOf(url))
}
