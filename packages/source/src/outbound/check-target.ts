// Decides where a request may go: what a URL says is checked first, then every address behind its name. What comes out
// is the list of addresses to connect to; nothing looks the name up a second time, so it can't mean something else then.
import { isIP } from 'node:net'
import { type AllowList, canonicalName } from './allow-list.ts'
import { type AddressClass, classifyAddress, parseIpAddress } from './classify-address.ts'
import { formatUrl, SourceForbidden } from './outbound.ts'

/** All addresses of a name, as text. */
export type Lookup = (name: string) => Promise<readonly string[]>

export type Target = Readonly<{ url: URL; host: string; port: number; addresses: readonly string[] }>

/** A name that is listed may be here. Elsewhere (metadata services above all) only the address itself can be listed. */
const openToListedNames: ReadonlySet<AddressClass> = new Set(['loopback', 'private', 'shared', 'link-local'])

/** Answered with the credentials of the machine by the clouds; refused by name too, so that the reason is clear. */
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
