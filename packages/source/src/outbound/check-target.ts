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

export async function checkTarget(url: URL, { allow, lookup }: { allow: AllowList; lookup: Lookup }): Promise<Target> {
  const { host, port } = checkUrl(url, allow)
  const addresses = isIP(host) === 0 ? [...new Set(await lookup(host))] : [host]
  if (addresses.length > mostAddresses) throw new SourceForbidden(`${host} has ${addresses.length} addresses`)
  for (const address of addresses) checkAddress({ url, host, port, address }, allow)
  return { url, host, port, addresses }
}

function checkUrl(url: URL, allow: AllowList): { host: string; port: number } {
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new SourceForbidden(`${url.protocol}//… is not a way to fetch anything; use https`)
  if (url.username !== '' || url.password !== '') throw new SourceForbidden(`${formatUrl(url)} carries a user name or password`)
  const name = canonicalName(url)
  const host = name.replace(/^\[(.*)\]$/, '$1')
  const port = Number(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port)
  if (port === 0) throw new SourceForbidden(`${formatUrl(url)} has no port to connect to`)
  if (metadataNames.has(name) && !allow.hasName(name, port)) throw new SourceForbidden(`${name} is a metadata service${howToAllow(url)}`)
  return { host, port }
}

function checkAddress(at: { url: URL; host: string; port: number; address: string }, allow: AllowList): void {
  const { url, host, port, address } = at
  const ip = parseIpAddress(address)
  if (ip === null) throw new SourceForbidden(`${host} has the address "${address}", which is none`)
  if (allow.hasAddress(ip, port)) return
  const isNamed = allow.hasName(host, port)
  const is = classifyAddress(ip)
  if (is !== 'public' && !(isNamed && openToListedNames.has(is))) {
    const where = address === host ? `${host} is` : `${host} is at ${address},`
    throw new SourceForbidden(
      `${where} ${is === 'unspecified' ? 'an' : 'a'} ${is} address${isNamed ? ': list the address itself with --allow-source' : howToAllow(url)}`,
    )
  }
  if (url.protocol === 'http:' && !isNamed) throw new SourceForbidden(`${formatUrl(url)} is plain http${howToAllow(url)}`)
}

const howToAllow = (url: URL): string => `; to allow it: --allow-source ${url.host}`
