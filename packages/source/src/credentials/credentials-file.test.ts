import { describe, expect, it } from 'vitest'
import { SettingsError } from '@muster/host'
import { findEntry } from './credentials-file.pure.ts'
import { parseCredentials } from './url-credentials.ts'

const parse = (text: string) => parseCredentials(text, '/etc/credentials.yaml')
const bearer = (prefix: string): string => `- { prefix: "${prefix}", bearer: { token: t } }\n`

describe('the longest prefix of a URL', () => {
  const entries = parse(['https://a', 'https://a/team/', 'https://a/team/models', 'https://a:8443', 'http://a/plain'].map(bearer).join(''))

  it.each<[string, string, string | null]>([
    ['a host', 'https://a/other', 'https://a'],
    ['a host in capitals', 'https://A/other', 'https://a'],
    ['a path', 'https://a/team/x', 'https://a/team/'],
    ['the longer path', 'https://a/team/models/x.gguf?download=1', 'https://a/team/models'],
    ['the path itself', 'https://a/team/models', 'https://a/team/models'],
    ['no part of a segment', 'https://a/team/modelsx', 'https://a/team/'],
    ['no escaped slash', 'https://a/team/models%2Fx', 'https://a/team/'],
    ['no way around by dots', 'https://a/team/models/../../other', 'https://a'],
    ['another port', 'https://a:8443/team/models', 'https://a:8443'],
    ['not another scheme', 'http://a/team/models', null],
    ['a path of plain http', 'http://a/plain/x', 'http://a/plain'],
    ['not another host', 'https://a.example/', null],
    ['not a host that begins alike', 'https://ab/', null],
  ])('matches %s', (_, url, want) => {
    expect(findEntry(entries, new URL(url))?.prefix ?? null).toBe(want)
  })
})

describe('a file that cannot be used is refused with its line', () => {
  it.each<[string, string, string]>([
    ['no YAML', '- prefix: "https://a\n', ':2: this is not YAML'],
    ['no list', 'prefix: https://a', ':1: an entry needs a prefix'],
    ['an empty file', '', ':1: an entry needs a prefix'],
    ['an unknown key', '- prefix: https://a\n  bearr: { token: canary }', ':2: unknown key "bearr"; the closest known key is bearer'],
    [
      'an unknown key of a login',
      '- prefix: https://a\n  basic:\n    username: u\n    pasword: canary',
      ':4: unknown key "pasword"; the closest known key is password',
    ],
    [
      'two logins',
      '- prefix: https://a\n  bearer: { token: canary }\n  basic: { username: u, password: canary }',
      'exactly one of basic, bearer and header',
    ],
    ['no login', '- prefix: https://a', 'exactly one of basic, bearer and header'],
    [
      'two passwords',
      '- prefix: https://a\n  basic: { username: u, password: canary, password_env: X }',
      ':2: basic: give exactly one of password',
    ],
    ['a prefix without a scheme', bearer('a.example/x'), 'prefix: it is not https://HOST'],
    ['another scheme', bearer('ftp://a'), 'prefix: it is not https://HOST'],
    ['a prefix with a password', bearer('https://u:canary@a'), 'prefix: it is not https://HOST'],
    ['a prefix with a query', bearer('https://a/?x=1'), 'prefix: it is not https://HOST'],
    [
      'a header of the request',
      '- prefix: https://a\n  header: { name: Host, value: canary }',
      ':2: header.name: Muster sets this header itself',
    ],
    ['a value with a line break', '- prefix: https://a\n  bearer: { token: "canary\\nx" }', ':2: bearer.token: it has control characters'],
    ['a relative file', '- prefix: https://a\n  bearer: { token_file: secret }', 'bearer.token_file: it is not an absolute path'],
    [
      'a number as a password',
      '- prefix: https://a\n  basic: { username: u, password: 1234 }',
      ':2: basic.password: it is missing, or of another kind',
    ],
    ['an alias', '- prefix: https://a\n  bearer: { token: &x canary }\n- prefix: https://b\n  bearer: { token: *x }', 'alias'],
  ])('%s', (_, text, message) => {
    expect(() => parse(text)).toThrow(message)
    expect(() => parse(text)).toThrow(SettingsError)
    expect(() => parse(text)).toThrow(expect.objectContaining({ message: expect.not.stringContaining('canary') }))
  })
})
