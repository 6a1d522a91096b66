import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AddressClass, classifyAddress, parseIpAddress } from './classify-address.ts'

const classOf = (text: string): AddressClass | null => {
  const address = parseIpAddress(text)
  return address === null ? null : classifyAddress(address)
}

describe('SEC21 the class of an address', () => {
  it.each<[string, AddressClass]>([
    ['8.8.8.8', 'public'],
    ['1.1.1.1', 'public'],
    ['9.255.255.255', 'public'],
    ['11.0.0.0', 'public'],
    ['172.15.255.255', 'public'],
    ['172.32.0.0', 'public'],
    ['192.167.255.255', 'public'],
    ['192.169.0.0', 'public'],
    ['100.63.255.255', 'public'],
    ['100.128.0.0', 'public'],
    ['126.255.255.255', 'public'],
    ['128.0.0.0', 'public'],
    ['169.253.255.255', 'public'],
    ['169.255.0.0', 'public'],
    ['198.17.255.255', 'public'],
    ['198.20.0.0', 'public'],
    ['223.255.255.255', 'public'],
    ['2606:4700:4700::1111', 'public'],
    ['2a00:1450:4001::200e', 'public'],
    ['2000::1', 'public'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.255', 'loopback'],
    ['::1', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback'],
    ['10.0.0.0', 'private'],
    ['10.255.255.255', 'private'],
    ['172.16.0.0', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.0.0', 'private'],
    ['192.168.255.255', 'private'],
    ['fc00::', 'private'],
    ['fdff:ffff::1', 'private'],
    ['fec0::1', 'private'],
    ['100.64.0.0', 'shared'],
    ['100.127.255.255', 'shared'],
    ['169.254.0.0', 'link-local'],
    ['169.254.169.253', 'link-local'],
    ['169.254.255.255', 'link-local'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['febf::1', 'link-local'],
    ['169.254.169.254', 'metadata'],
    ['169.254.170.2', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['192.0.0.192', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['fd20:ce::254', 'metadata'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['ff02::1', 'multicast'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['::', 'unspecified'],
    ['255.255.255.255', 'reserved'],
    ['240.0.0.1', 'reserved'],
    ['192.0.0.1', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['192.88.99.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['198.51.100.1', 'reserved'],
    ['203.0.113.1', 'reserved'],
    ['100::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['3fff::1', 'reserved'],
    ['4000::1', 'reserved'],
  ])('%s is %s', (text, is) => {
    expect(classOf(text)).toBe(is)
  })

  it.each<[string, string, AddressClass]>([
    ['IPv4-mapped', '::ffff:127.0.0.1', 'loopback'],
    ['IPv4-mapped in hex', '::ffff:7f00:1', 'loopback'],
    ['IPv4-mapped, written out', '0:0:0:0:0:ffff:10.0.0.1', 'private'],
    ['IPv4-mapped metadata', '::ffff:169.254.169.254', 'metadata'],
    ['IPv4-mapped public', '::ffff:8.8.8.8', 'public'],
    ['IPv4-compatible', '::127.0.0.1', 'reserved'],
    ['IPv4-compatible public', '::8.8.8.8', 'reserved'],
    ['IPv4-translated', '::ffff:0:127.0.0.1', 'reserved'],
    ['NAT64 to loopback', '64:ff9b::127.0.0.1', 'loopback'],
    ['NAT64 to private', '64:ff9b::a00:1', 'private'],
    ['NAT64 to metadata', '64:ff9b::169.254.169.254', 'metadata'],
    ['NAT64 to public', '64:ff9b::8.8.8.8', 'public'],
    ['local NAT64', '64:ff9b:1::8.8.8.8', 'reserved'],
    ['6to4 of loopback', '2002:7f00:1::', 'reserved'],
    ['6to4 of public', '2002:808:808::', 'reserved'],
    ['Teredo', '2001:0:7f00:1::', 'reserved'],
    ['ISATAP', '2606:4700::5efe:7f00:1', 'reserved'],
    ['ISATAP of a universal address', '2606:4700::200:5efe:127.0.0.1', 'reserved'],
  ])('an address inside an address: %s, %s, is %s', (_form, text, is) => {
    expect(classOf(text)).toBe(is)
  })

  it.each([
    '',
    'localhost',
    '010.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '256.1.1.1',
    '1.2.3',
    '::g',
    ':::',
    '[::1]',
    '1.2.3.4%eth0',
    '::1%',
  ])('%j cannot be classified', (text) => {
    expect(classOf(text)).toBe(null)
  })

  it('an IPv4 address and its mapped form are of one class', () => {
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        expect(classOf(`::ffff:${text}`)).toBe(classOf(text))
      }),
    )
  })

  it('only addresses of the global unicast block and of NAT64 are public', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const address = parseIpAddress(text)
        if (address?.bits !== 128 || classifyAddress(address) !== 'public') return
        expect(address.value >> 125n === 1n || address.value >> 32n === 0x64ff9b0000000000000000n).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })
})
