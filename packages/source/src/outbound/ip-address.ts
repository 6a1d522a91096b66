// An IP address as a number, so that being in a range is arithmetic and not string matching.
import { isIPv4, isIPv6 } from 'node:net'

export type IpAddress = Readonly<{ bits: 32 | 128; value: bigint }>

/**
 * Only the forms that `node:net` takes: four decimal numbers, or IPv6. Octal, hexadecimal and single-number forms
 * are written out by `URL` before they get here. An IPv4-mapped address (`::ffff:10.0.0.1`) is the IPv4 address that
 * a socket would be connected to, and so it is here.
 */
export function parseIpAddress(text: string): IpAddress | null {
  if (isIPv4(text)) return { bits: 32, value: valueOf(text.split('.').map(Number), 8n) }
  const [address = '', zone] = text.split('%', 2)
  if (!isIPv6(text) || (zone !== undefined && !isIPv6(address))) return null
  const value = valueOf(groupsOf(address), 16n)
  return value >> 32n === 0xffffn ? { bits: 32, value: value & 0xffff_ffffn } : { bits: 128, value }
}

export function isWithin(address: IpAddress, range: IpAddress & { readonly prefix: number }): boolean {
  if (address.bits !== range.bits) return false
  const rest = BigInt(range.bits - range.prefix)
  return address.value >> rest === range.value >> rest
}

/** `URL` knows all ways to write an IPv6 address and gives back one. */
function groupsOf(address: string): number[] {
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = canonical.split('::', 2)
  const parse = (part: string): number[] => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)))
  if (tail === undefined) return parse(head)
  const [before, after] = [parse(head), parse(tail)]
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

const valueOf = (parts: readonly number[], bitsOfPart: bigint): bigint =>
  parts.reduce((value, part) => (value << bitsOfPart) | BigInt(part), 0n)
