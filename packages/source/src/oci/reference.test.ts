import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { formatReference, parseReference } from './reference.ts'

const hex = 'a'.repeat(64)
const digest = `sha256:${hex}`

describe('a reference', () => {
  it.each([
    ['oci://host.test/name:tag', 'host.test', 'name', 'tag', null],
    ['host.test/name:tag', 'host.test', 'name', 'tag', null],
    ['host.test/name', 'host.test', 'name', 'latest', null],
    ['host.test:5000/a/b-c/d_e.f:v1.2', 'host.test:5000', 'a/b-c/d_e.f', 'v1.2', null],
    ['host.test:443/name', 'host.test:443', 'name', 'latest', null],
    ['127.0.0.1:5000/name', '127.0.0.1:5000', 'name', 'latest', null],
    ['[::1]:5000/name:x', '[::1]:5000', 'name', 'x', null],
    ['localhost/name', 'localhost', 'name', 'latest', null],
    ['localhost:5000/name', 'localhost:5000', 'name', 'latest', null],
    [`host.test/name@${digest}`, 'host.test', 'name', null, digest],
    [`oci://host.test/name:tag@${digest}`, 'host.test', 'name', 'tag', digest],
    ['oci://registry/echo:1', 'registry', 'echo', '1', null],
    ['alpine', 'docker.io', 'library/alpine', 'latest', null],
    ['alpine:3', 'docker.io', 'library/alpine', '3', null],
    ['oci://alpine', 'docker.io', 'library/alpine', 'latest', null],
    ['owner/name', 'docker.io', 'owner/name', 'latest', null],
    ['docker.io/alpine', 'docker.io', 'library/alpine', 'latest', null],
    ['index.docker.io/owner/name:1', 'docker.io', 'owner/name', '1', null],
    [
      'quay.io/go-skynet/local-ai-backends:latest-gpu-nvidia-cuda-12-llama-cpp',
      'quay.io',
      'go-skynet/local-ai-backends',
      'latest-gpu-nvidia-cuda-12-llama-cpp',
      null,
    ],
  ])('%s', (text, ...[registry, repository, tag, pinned]) => {
    expect(parseReference(text)).toEqual({ registry, repository, tag, digest: pinned })
  })

  it.each([
    '',
    ' ',
    'oci://',
    'http://host.test/name',
    'https://host.test/name',
    'file:///etc/passwd',
    'host.test/',
    'host.test//name',
    'host.test/name/',
    'host.test/../name',
    'host.test/a/../../etc',
    'host.test/./name',
    'host.test/%2e%2e/name',
    'host.test/Name',
    'host.test/na me',
    'host.test/name?x=y',
    'host.test/name#x',
    'host.test/name\n',
    'host.test/-name',
    'host.test/name-',
    'host.test/a___b',
    'host.test/name:',
    'host.test/name:.tag',
    'host.test/name:-tag',
    'host.test/name:ta/g',
    'host.test/name:tag:tag',
    `host.test/name:${'t'.repeat(129)}`,
    `host.test/${'n'.repeat(256)}`,
    `host.test/${'n/'.repeat(600)}n`,
    'Host.test/name',
    'host..test/name',
    'host.test./name',
    '.test/name',
    'host.test:0x50/name',
    'host.test:99999/name',
    'host.test:/name',
    'oci://2130706433/name',
    '0x7f.1/name',
    '127.1/name',
    '0177.0.0.1/name',
    'user@host.test/name',
    'user:pass@host.test/name',
    'oci://user@host.test/name',
    'ho\u200bst.test/name',
    '１２７.0.0.1/name',
  ])('%j is refused', (text) => {
    expect(() => parseReference(text)).toThrow(
      expect.objectContaining({ failure: expect.objectContaining({ code: 'invalid', retry: 'never' }) }),
    )
  })

  it.each([
    ['a path', 'sha256:../../../../etc/passwd'],
    ['a path of the right length', `sha256:${'../'.repeat(21)}x`],
    ['upper case', `sha256:${'A'.repeat(64)}`],
    ['63 digits', `sha256:${'a'.repeat(63)}`],
    ['65 digits', `sha256:${'a'.repeat(65)}`],
    ['not hex', `sha256:${'g'.repeat(64)}`],
    ['sha512', `sha512:${'a'.repeat(128)}`],
    ['sha1', `sha1:${'a'.repeat(40)}`],
    ['upper-case algorithm', `SHA256:${hex}`],
    ['no algorithm', hex],
    ['a dash for the colon', `sha256-${hex}`],
    ['nothing', ''],
    ['only the algorithm', 'sha256:'],
    ['a newline at the end', `sha256:${hex}\n`],
    ['two of them', `${digest}@${digest}`],
    ['more behind it', `${digest}/../x`],
  ])('H16 SEC12 a digest that is %s is refused', (_what, bad) => {
    expect(() => parseReference(`host.test/name@${bad}`)).toThrow('not an image reference')
  })

  it('is the same after it was written out', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,8}$/)
    const names = fc.array(label, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'))
    fc.assert(
      fc.property(label, names, fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/), fc.boolean(), (host, name, tag, pinned) => {
        const reference = parseReference(`${host}.test/${name}:${tag}${pinned ? `@${digest}` : ''}`)
        expect(parseReference(formatReference(reference))).toEqual(reference)
      }),
    )
  })

  it('never becomes more than host, path and tag, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        let reference
        try {
          reference = parseReference(text)
        } catch {
          return
        }
        const url = new URL(`https://${reference.registry}/v2/${reference.repository}/manifests/${reference.tag ?? reference.digest}`)
        expect(url.pathname).toBe(`/v2/${reference.repository}/manifests/${reference.tag ?? reference.digest}`)
        expect([url.username, url.search, url.hash]).toEqual(['', '', ''])
      }),
      { numRuns: 2000 },
    )
  })
})
