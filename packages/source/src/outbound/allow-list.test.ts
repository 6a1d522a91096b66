import { describe, expect, it } from 'vitest'
import { parseAllowList } from './allow-list.ts'
import { parseIpAddress, type IpAddress } from './classify-address.ts'

const ip = (text: string): IpAddress => {
  const address = parseIpAddress(text)
  if (address === null) throw new Error(text)
  return address
}

describe('SEC21 --allow-source', () => {
  it.each([
    ['registry.example', 'registry.example', 443, true],
    ['registry.example', 'registry.example', 5000, true],
    ['registry.example:5000', 'registry.example', 5000, true],
    ['registry.example:5000', 'registry.example', 443, false],
    ['registry.example', 'other.registry.example', 443, false],
    ['registry.example', 'registry.example.evil', 443, false],
    ['Registry.Example.', 'registry.example', 443, true],
    ['bücher.example', 'xn--bcher-kva.example', 443, true],
    ['localhost', 'localhost', 1, true],
    ['10.0.0.1', '10.0.0.1', 80, false],
  ])('%s covers the name %s at port %i: %s', (entry, name, port, expected) => {
    expect(parseAllowList([entry]).hasName(name, port)).toBe(expected)
  })

  it.each([
    ['10.0.0.0/8', '10.1.2.3', 80, true],
    ['10.0.0.0/8', '11.0.0.0', 80, false],
    ['10.1.2.3/8', '10.9.9.9', 80, true],
    ['0.0.0.0/0', '169.254.169.254', 80, true],
    ['0.0.0.0/0', 'fd00::1', 80, false],
    ['192.168.1.7', '192.168.1.7', 80, true],
    ['192.168.1.7', '192.168.1.8', 80, false],
    ['192.168.1.7:5000', '192.168.1.7', 5000, true],
    ['192.168.1.7:5000', '192.168.1.7', 5001, false],
    ['192.168.1.7', '::ffff:192.168.1.7', 80, true],
    ['fd00::/8', 'fd12::1', 80, true],
    ['fd00::/8', 'fe80::1', 80, false],
    ['fd00::5', 'fd00::5', 80, true],
    ['[fd00::5]', 'fd00::5', 80, true],
    ['[fd00::5]:5000', 'fd00::5', 5000, true],
    ['[fd00::5]:5000', 'fd00::5', 80, false],
    ['::/0', '::1', 80, true],
    ['registry.example', '10.0.0.1', 80, false],
  ])('%s covers the address %s at port %i: %s', (entry, address, port, expected) => {
    expect(parseAllowList([entry]).hasAddress(ip(address), port)).toBe(expected)
  })

  it.each([
    '',
    ' ',
    'a b',
    'https://registry.example',
    'registry.example/path',
    'user@registry.example',
    'registry.example:0',
    'registry.example:65536',
    'registry.example:port',
    'registry.example:',
    '*.example',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0/8',
    '10.0.0.0/8:5000',
    '010.0.0.1',
    '2130706433',
    '0x7f.1',
    '127.1',
    'fd00::/129',
    '[fd00::5',
    'fe80::1%eth0',
    '::ffff:10.0.0.0/104',
    'a'.repeat(400),
  ])('%j is refused', (entry) => {
    expect(() => parseAllowList([entry])).toThrow('allow-source takes HOST')
  })
})
