// The entries of --allow-source: HOST[:PORT] or CIDR. A name permits private addresses behind it; an address or a range
// also permits special ones, such as metadata services.
import { isIP, isIPv6 } from 'node:net'
import { FleetError } from '@muster/protocol'
import { isWithin, parseIpAddress, type IpAddress } from './classify-address.ts'

export interface AllowList {
  hasName(name: string, port: number): boolean
  hasAddress(address: IpAddress, port: number): boolean
}

type Entry = Readonly<{ port: number | null } & ({ name: string } | { range: IpAddress & { readonly prefix: number } })>

export function parseAllowList(texts: readonly string[]): AllowList {
  const entries = texts.map(parseEntry)
  const isFor = (entry: Entry, port: number): boolean => entry.port === null || entry.port === port
  return {
    hasName: (name, port) => entries.some((entry) => 'name' in entry && entry.name === name && isFor(entry, port)),
    hasAddress: (address, port) => entries.some((entry) => 'range' in entry && isWithin(address, entry.range) && isFor(entry, port)),
  }
}

/** The problem of an entry, as a sentence; null when it is valid. */
export function findAllowListProblem(texts: readonly string[]): string | null {
  try {
    parseAllowList(texts)
    return null
  } catch (error) {
    if (error instanceof FleetError) return error.message
    throw error
  }
}

function parseEntry(text: string): Entry {
  if (text.length > 300) return refuse(text.slice(0, 60))
  if (text.includes('/')) return { range: parseCidr(text), port: null }
  const bare = parseIpAddress(text)
  if (bare !== null && !text.includes('%')) return { range: { ...bare, prefix: bare.bits }, port: null }
  const [, host = '', port] = /^(\[[0-9a-f:.]+\]|[^[\]:/?#@\\\s]+)(?::(\d{1,5}))?$/i.exec(text) ?? refuse(text)
  const number = port === undefined ? null : Number(port)
  if (number !== null && (number < 1 || number > 65_535)) refuse(text)
  const address = parseIpAddress(host.replace(/^\[(.*)\]$/, '$1'))
  if (address !== null) return { range: { ...address, prefix: address.bits }, port: number }
  return { name: parseName(host, text), port: number }
}

function parseCidr(text: string): IpAddress & { readonly prefix: number } {
  const [, address = '', digits = ''] = /^([0-9a-f:.]+)\/(\d{1,3})$/i.exec(text) ?? refuse(text)
  const parsed = parseIpAddress(address) ?? refuse(text)
  // A mapped address has become 32 bits, which makes no sensible range.
  if (parsed.bits === 32 && isIPv6(address)) refuse(text)
  const prefix = Number(digits)
  return prefix > parsed.bits ? refuse(text) : { ...parsed, prefix }
}

/** In the form of `URL`, with which it is compared. A number that `URL` would read as an address is refused. */
function parseName(host: string, text: string): string {
  const url = URL.parse(`http://${host}/`) ?? refuse(text)
  const name = canonicalName(url)
  return name === '' || isIP(name) !== 0 || name.includes('[') || name.includes('*') ? refuse(text) : name
}

/** The name of a URL's host: lower case and in ASCII, as `URL` gives it, and without the dot that ends a full name. */
export const canonicalName = (url: URL): string => url.hostname.replace(/\.$/, '')

function refuse(text: string): never {
  throw new FleetError({
    code: 'invalid',
    retry: 'never',
    message: `allow-source takes HOST, HOST:PORT or a range like 10.0.0.0/8, not "${text}"`,
  })
}
