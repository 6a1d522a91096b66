import { describe, expect, it } from 'vitest'
import { parseAllowList } from './allow-list.ts'
import { checkTarget, type Target } from './check-target.ts'

/** Names and what they are said to mean; whatever is not here means a public address. */
const names: Readonly<Record<string, readonly string[]>> = {
  localhost: ['127.0.0.1', '::1'],
  'a.localhost': ['127.0.0.1'],
  'private.test': ['10.0.0.5'],
  'loop.test': ['127.0.0.1'],
  'mixed.test': ['93.184.216.34', '10.0.0.5'],
  'mixed6.test': ['93.184.216.34', 'fe80::1'],
  'mapped.test': ['::ffff:127.0.0.1'],
  'meta.test': ['169.254.169.254'],
  'odd.test': ['not an address'],
  'many.test': Array.from({ length: 65 }, (_, index) => `93.184.216.${index}`),
  'public.test': ['93.184.216.34', '2606:2800:220:1::1'],
}

const check = async (url: string, allow: readonly string[] = []): Promise<Target> =>
  await checkTarget(new URL(url), {
    allow: parseAllowList(allow),
    lookup: (name) => Promise.resolve(names[name] ?? ['93.184.216.34']),
  })

describe('H19 E16 SEC21 where a request may go', () => {
  it.each([
    ['file:///etc/passwd', 'not a way to fetch'],
    ['ftp://public.test/', 'not a way to fetch'],
    ['gopher://127.0.0.1:6379/_FLUSHALL', 'not a way to fetch'],
    ['data:text/plain,x', 'not a way to fetch'],
    ['javascript:alert(1)', 'not a way to fetch'],
    ['blob:https://public.test/x', 'not a way to fetch'],
    ['ws://public.test/', 'not a way to fetch'],
    ['https://user@public.test/', 'user name or password'],
    ['https://user:secret@public.test/', 'user name or password'],
    ['https://public.test@127.0.0.1/', 'user name or password'],
    ['https://localhost/', 'a loopback address'],
    ['https://LOCALHOST/', 'a loopback address'],
    ['https://localhost./', 'a loopback address'],
    ['https://a.localhost/', 'a loopback address'],
    ['https://127.0.0.1/', 'a loopback address'],
    ['https://127.0.0.1:8443/', 'a loopback address'],
    ['https://127.1/', 'a loopback address'],
    ['https://2130706433/', 'a loopback address'],
    ['https://0x7f000001/', 'a loopback address'],
    ['https://0x7f.0.0.1/', 'a loopback address'],
    ['https://0177.0.0.1/', 'a loopback address'],
    ['https://017700000001/', 'a loopback address'],
    ['https://127.0.0.1./', 'a loopback address'],
    ['https://１２７.０.０.１/', 'a loopback address'],
    ['https://127。0。0。1/', 'a loopback address'],
    ['https://%31%32%37.0.0.1/', 'a loopback address'],
    ['https://[::1]/', 'a loopback address'],
    ['https://[0:0:0:0:0:0:0:1]/', 'a loopback address'],
    ['https://[::ffff:127.0.0.1]/', 'a loopback address'],
    ['https://[::ffff:7f00:1]/', 'a loopback address'],
    ['https://[64:ff9b::127.0.0.1]/', 'a loopback address'],
    ['https://[::127.0.0.1]/', 'a reserved address'],
    ['https://[2002:7f00:1::]/', 'a reserved address'],
    ['https://[2001:0:7f00:1::]/', 'a reserved address'],
    ['https://0/', 'an unspecified address'],
    ['https://0.0.0.0/', 'an unspecified address'],
    ['https://[::]/', 'an unspecified address'],
    ['https://10.0.0.1/', 'a private address'],
    ['https://172.16.0.1/', 'a private address'],
    ['https://172.31.255.254/', 'a private address'],
    ['https://192.168.1.1/', 'a private address'],
    ['https://[fc00::1]/', 'a private address'],
    ['https://[fd12:3456::1]/', 'a private address'],
    ['https://[fec0::1]/', 'a private address'],
    ['https://100.64.0.1/', 'a shared address'],
    ['https://169.254.0.1/', 'a link-local address'],
    ['https://[fe80::1]/', 'a link-local address'],
    ['https://169.254.169.254/latest/meta-data/', 'a metadata address'],
    ['https://2852039166/', 'a metadata address'],
    ['https://0xa9fea9fe/', 'a metadata address'],
    ['https://0251.0376.0251.0376/', 'a metadata address'],
    ['https://[::ffff:169.254.169.254]/', 'a metadata address'],
    ['https://[fd00:ec2::254]/', 'a metadata address'],
    ['https://100.100.100.200/', 'a metadata address'],
    ['https://168.63.129.16/', 'a metadata address'],
    ['https://metadata.google.internal/', 'a metadata service'],
    ['https://metadata.google.internal./', 'a metadata service'],
    ['https://METADATA/', 'a metadata service'],
    ['https://instance-data/', 'a metadata service'],
    ['https://224.0.0.1/', 'a multicast address'],
    ['https://[ff02::1]/', 'a multicast address'],
    ['https://255.255.255.255/', 'a reserved address'],
    ['https://private.test/', 'at 10.0.0.5, a private address'],
    ['https://loop.test/', 'at 127.0.0.1, a loopback address'],
    ['https://mapped.test/', 'a loopback address'],
    ['https://meta.test/', 'a metadata address'],
    ['https://mixed.test/', 'at 10.0.0.5, a private address'],
    ['https://mixed6.test/', 'at fe80::1, a link-local address'],
    ['https://odd.test/', 'which is none'],
    ['https://many.test/', 'has 65 addresses'],
    ['https://public.test:0/', 'no port'],
    ['http://public.test/', 'plain http'],
    ['http://93.184.216.34/', 'plain http'],
  ])('%s is refused: %s', async (url, reason) => {
    await expect(check(url)).rejects.toMatchObject({
      failure: { code: 'invalid', retry: 'never', message: expect.stringMatching(/^source_forbidden: /) },
      message: expect.stringContaining(reason),
    })
  })

  it.each([
    ['https://public.test/'],
    ['https://PUBLIC.test.:8443/x?y'],
    ['https://93.184.216.34/'],
    ['https://[2606:2800:220:1::1]/'],
    ['https://[64:ff9b::93.184.216.34]/'],
  ])('%s is open to everybody', async (url) => {
    await expect(check(url)).resolves.toMatchObject({ url: new URL(url) })
  })

  it('hands out the addresses that it checked', async () => {
    await expect(check('https://public.test/')).resolves.toEqual({
      url: new URL('https://public.test/'),
      host: 'public.test',
      port: 443,
      addresses: ['93.184.216.34', '2606:2800:220:1::1'],
    })
  })

  it.each([
    ['https://private.test/', 'private.test'],
    ['https://private.test/', '10.0.0.0/8'],
    ['http://private.test/', 'private.test'],
    ['http://private.test/', 'private.test:80'],
    ['http://private.test/', '10.0.0.5'],
    ['http://mixed.test/', 'mixed.test'],
    ['http://public.test/', 'public.test'],
    ['http://localhost:5000/', 'localhost:5000'],
    ['http://a.localhost/', '127.0.0.1'],
    ['http://127.0.0.1:5000/', '127.0.0.1:5000'],
    ['http://127.0.0.1:5000/', '127.0.0.0/8'],
    ['http://[::1]:5000/', '::1'],
    ['http://[::ffff:127.0.0.1]/', '127.0.0.1'],
    ['http://2130706433/', '127.0.0.1'],
    ['http://169.254.169.254/', '169.254.169.254'],
    ['http://meta.test/', '169.254.0.0/16'],
  ])('%s is open where %s is listed', async (url, entry) => {
    await expect(check(url, [entry])).resolves.toMatchObject({ url: new URL(url) })
  })

  it.each([
    ['https://private.test/', 'private.test:5000'],
    ['https://private.test/', 'other.test'],
    ['http://private.test/', '10.0.0.5:5000'],
    ['http://mixed.test/', '10.0.0.0/8'],
    ['https://meta.test/', 'meta.test'],
    ['https://metadata.google.internal/', '169.254.169.254'],
    ['https://localhost/', '127.0.0.1'],
    ['file:///etc/passwd', '0.0.0.0/0'],
    ['https://user@private.test/', 'private.test'],
  ])('%s stays closed where only %s is listed', async (url, entry) => {
    await expect(check(url, [entry])).rejects.toThrow(/^source_forbidden: /)
  })

  it.each([
    'https://169.254.169.254/latest/meta-data/',
    'https://169.254.0.1/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://metadata.google.internal/',
    'https://meta.test/',
    'https://0.0.0.0/',
    'https://224.0.0.1/',
  ])('%s is refused, and nobody is advised to allow it', async (url) => {
    for (const allow of [[], ['meta.test']]) {
      const refusal = await check(url, allow).catch((error: unknown) => error)
      expect(refusal).toMatchObject({ message: expect.stringMatching(/^source_forbidden: .*, not a source$/) })
      expect(String(refusal)).not.toContain('--allow-source')
    }
  })

  it.each([
    ['advises to allow the target when the host that redirects is listed', ['registry.test'], '; to allow it: --allow-source 10.0.0.5 ('],
    ['gives no advice when another host redirects', [], 'is a private address ('],
  ])('a redirect to a private address names both, and %s', async (_, allow, text) => {
    const redirectedFrom = new URL('https://registry.test/x?signature=abc')
    const checked = checkTarget(new URL('https://10.0.0.5/'), { allow: parseAllowList(allow), lookup: async () => [], redirectedFrom })
    await expect(checked).rejects.toThrow(`source_forbidden: 10.0.0.5 is a private address`)
    await expect(checked).rejects.toThrow(`${text}https://registry.test/x redirects there)`)
  })

  it('I21 a refusal shows neither a password nor a query', async () => {
    await expect(check('http://someone:hunter2@public.test/p?signature=abc')).rejects.toSatisfy(
      (error: Error) => !error.message.includes('hunter2') && !error.message.includes('abc') && error.message.includes('public.test/p'),
    )
  })
})
