// Classifies an address. Only a globally routed unicast address is public; everything else has another class, so that a
// range that is missing in these tables is refused.
import { isIPv4, isIPv6 } from 'node:net'

export type AddressClass =
  | 'public'
  | 'loopback'
  | 'private'
  | 'shared'
  | 'link-local'
  | 'metadata'
  | 'multicast'
  | 'unspecified'
  | 'reserved'

type Range = Readonly<IpAddress & { prefix: number; is: AddressClass }>

const toRange = (cidr: string, is: AddressClass): Range => {
  const [text = '', prefix] = cidr.split('/')
  const address = parseIpAddress(text)
  if (address === null) throw new Error(`not a range: ${cidr}`)
  return { ...address, prefix: Number(prefix ?? address.bits), is }
}

/** The first match counts. */
const ranges: readonly Range[] = [
  // Where clouds keep a machine's credentials: AWS, GCP, Azure and most others; ECS; EKS; Tencent; Scaleway; Alibaba;
  // Oracle; Azure's host, which is a public address that only a virtual machine can reach; AWS and GCP by IPv6.
  ...['169.254.169.254', '169.254.170.2', '169.254.170.23', '169.254.0.23', '169.254.42.42'].map((it) => toRange(it, 'metadata')),
  ...['100.100.100.200', '192.0.0.192', '168.63.129.16', 'fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254'].map((it) =>
    toRange(it, 'metadata'),
  ),
  toRange('0.0.0.0/8', 'unspecified'),
  toRange('10.0.0.0/8', 'private'),
  toRange('100.64.0.0/10', 'shared'),
  toRange('127.0.0.0/8', 'loopback'),
  toRange('169.254.0.0/16', 'link-local'),
  toRange('172.16.0.0/12', 'private'),
  toRange('192.0.0.0/24', 'reserved'),
  toRange('192.0.2.0/24', 'reserved'),
  toRange('192.88.99.0/24', 'reserved'),
  toRange('192.168.0.0/16', 'private'),
  toRange('198.18.0.0/15', 'reserved'),
  toRange('198.51.100.0/24', 'reserved'),
  toRange('203.0.113.0/24', 'reserved'),
  toRange('224.0.0.0/4', 'multicast'),
  toRange('240.0.0.0/4', 'reserved'),
  toRange('0.0.0.0/0', 'public'),

  toRange('::/128', 'unspecified'),
  toRange('::1/128', 'loopback'),
  toRange('fc00::/7', 'private'),
  toRange('fe80::/10', 'link-local'),
  toRange('fec0::/10', 'private'),
  toRange('ff00::/8', 'multicast'),
  // Protocol assignments (Teredo and ORCHID among them), documentation, 6to4: each can embed another address.
  toRange('2001::/23', 'reserved'),
  toRange('2001:db8::/32', 'reserved'),
  toRange('2002::/16', 'reserved'),
  toRange('3fff::/20', 'reserved'),
  toRange('2000::/3', 'public'),
]

const nat64 = toRange('64:ff9b::/96', 'reserved')

export function classifyAddress(address: IpAddress): AddressClass {
  // The translator of an IPv6-only network: the target is the IPv4 address inside.
  if (isWithin(address, nat64)) return classifyAddress({ bits: 32, value: address.value & 0xffff_ffffn })
  if (address.bits === 128 && isIsatap(address.value)) return 'reserved'
  return ranges.find((each) => isWithin(address, each))?.is ?? 'reserved'
}

/** A tunnel whose address ends in `:0:5efe:` or `:200:5efe:` and an IPv4 address. */
const isIsatap = (value: bigint): boolean => ((value >> 32n) & 0xfdff_ffffn) === 0x5efen

// An IP address as a number, so that ranges are arithmetic, not string matching.
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

function valueOf(parts: readonly number[], bitsOfPart: bigint): bigint {
  return parts.reduce((value, part) => (value << bitsOfPart) | BigInt(part), 0n)
}
