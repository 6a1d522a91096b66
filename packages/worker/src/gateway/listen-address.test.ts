import { describe, expect, it } from 'vitest'
import { httpUrl, parseListenAddress } from './listen-address.ts'

describe('parseListenAddress', () => {
  it.each([
    ['10.0.0.5', { host: '10.0.0.5', port: 0 }],
    ['10.0.0.5:9000', { host: '10.0.0.5', port: 9000 }],
    [':9000', { host: null, port: 9000 }],
    ['gpu-1.lan:0', { host: 'gpu-1.lan', port: 0 }],
    ['[::1]:9000', { host: '::1', port: 9000 }],
    ['[fd00::5]', { host: 'fd00::5', port: 0 }],
    ['fd00::5', { host: 'fd00::5', port: 0 }],
    ['', null],
    ['10.0.0.5:70000', null],
    ['10.0.0.5:http', null],
    ['http://10.0.0.5', null],
    ['[10.0.0.5]:1', null],
    ['a b', null],
  ])('reads %j', (text, want) => {
    expect(parseListenAddress(text)).toEqual(want)
  })
})

it('writes an IPv6 address into a URL', () => {
  expect(httpUrl('fd00::5', 9000)).toBe('http://[fd00::5]:9000')
})
