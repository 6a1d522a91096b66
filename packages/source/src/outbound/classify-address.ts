// What kind of place an address is. Everything that is not known to be a public, globally routed unicast address has
// another name here, so that what is missing in these tables is refused and not let through.
import { isWithin, parseIpAddress, type IpAddress } from './ip-address.ts'

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

const range = (cidr: string, is: AddressClass): Range => {
  const [text = '', prefix] = cidr.split('/')
  const address = parseIpAddress(text)
  if (address === null) throw new Error(`not a range: ${cidr}`)
  return { ...address, prefix: Number(prefix ?? address.bits), is }
}

/** The first that fits counts. */
const ranges: readonly Range[] = [
  // Where clouds keep a machine's credentials: AWS, GCP, Azure and most others; ECS; EKS; Tencent; Scaleway; Alibaba;
  // Oracle; Azure's host, which is a public address that only a virtual machine can reach; AWS and GCP by IPv6.
  ...['169.254.169.254', '169.254.170.2', '169.254.170.23', '169.254.0.23', '169.254.42.42'].map((it) => range(it, 'metadata')),
  ...['100.100.100.200', '192.0.0.192', '168.63.129.16', 'fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254'].map((it) =>
    range(it, 'metadata'),
  ),
  range('0.0.0.0/8', 'unspecified'),
  range('10.0.0.0/8', 'private'),
  range('100.64.0.0/10', 'shared'),
  range('127.0.0.0/8', 'loopback'),
  range('169.254.0.0/16', 'link-local'),
  range('172.16.0.0/12', 'private'),
  range('192.0.0.0/24', 'reserved'),
  range('192.0.2.0/24', 'reserved'),
  range('192.88.99.0/24', 'reserved'),
  range('192.168.0.0/16', 'private'),
  range('198.18.0.0/15', 'reserved'),
  range('198.51.100.0/24', 'reserved'),
  range('203.0.113.0/24', 'reserved'),
  range('224.0.0.0/4', 'multicast'),
  range('240.0.0.0/4', 'reserved'),
  range('0.0.0.0/0', 'public'),

  range('::/128', 'unspecified'),
  range('::1/128', 'loopback'),
  range('fc00::/7', 'private'),
  range('fe80::/10', 'link-local'),
  range('fec0::/10', 'private'),
  range('ff00::/8', 'multicast'),
  // Protocol assignments (Teredo and ORCHID among them), documentation, 6to4: each is a way to say another address.
  range('2001::/23', 'reserved'),
  range('2001:db8::/32', 'reserved'),
  range('2002::/16', 'reserved'),
  range('3fff::/20', 'reserved'),
  range('2000::/3', 'public'),
]

const nat64 = range('64:ff9b::/96', 'reserved')

export function classifyAddress(address: IpAddress): AddressClass {
  // The translator of an IPv6-only network; where it leads is the IPv4 address inside.
  if (isWithin(address, nat64)) return classifyAddress({ bits: 32, value: address.value & 0xffff_ffffn })
  if (address.bits === 128 && isIsatap(address.value)) return 'reserved'
  return ranges.find((each) => isWithin(address, each))?.is ?? 'reserved'
}

/** A tunnel whose address ends in `:0:5efe:` or `:200:5efe:` and an IPv4 address. */
const isIsatap = (value: bigint): boolean => ((value >> 32n) & 0xfdff_ffffn) === 0x5efen
