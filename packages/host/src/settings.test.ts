import { describe, expect, expectTypeOf, it } from 'vitest'
import type { Secret } from './secret.ts'
import { bool, choice, duration, int, list, map, secret, string } from './setting-kinds.ts'
import { defineSettings, explainSettings, resolveSettings, type SettingsSources } from './settings.ts'

const settings = defineSettings({
  host: string({ flag: 'host', default: '127.0.0.1', help: 'where to listen' }),
  name: string({ flag: 'name', help: 'what to be called' }),
  port: int({ flag: 'port', default: 8080, min: 0, max: 65535, help: 'where to listen' }),
  attempts: int({ flag: 'op-max-attempts', default: 10, min: 1, help: 'tries' }),
  autoApprove: bool({ flag: 'auto-approve', default: false, help: 'let nodes in' }),
  nodeTimeout: duration({ flag: 'node-timeout', default: '15s', help: 'silence' }),
  installTimeout: duration({
    flag: 'backend-install-timeout',
    default: '15m',
    aliases: ['LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT'],
    help: 'how long',
  }),
  wait: duration({ flag: 'wait', help: 'how long' }),
  gallery: list({ flag: 'gallery', help: 'NAME=URL' }),
  labels: map({ flag: 'labels', help: 'k=v', check: (labels) => ('node.name' in labels ? 'node.name is set by Muster' : null) }),
  format: choice({ flag: 'log-format', values: ['text', 'json'], default: 'text', help: 'of logs' }),
  adminKey: secret({ flag: 'admin-key', help: 'of the administrator' }),
  token: secret({ flag: 'token', allowFlag: true, help: 'to join' }),
})

const resolve = (sources: Partial<SettingsSources> = {}) => resolveSettings(settings, { flags: {}, env: {}, ...sources })
const file = (text: string): Partial<SettingsSources> => ({ file: { path: '/etc/muster.yaml', text } })

describe('where a value comes from', () => {
  it('is its default when nothing is given', () => {
    expect(resolve()).toEqual({
      host: '127.0.0.1',
      name: undefined,
      port: 8080,
      attempts: 10,
      autoApprove: false,
      nodeTimeout: 15_000,
      installTimeout: 900_000,
      wait: undefined,
      gallery: [],
      labels: {},
      format: 'text',
      adminKey: undefined,
      token: undefined,
    })
  })

  it('is the flag before the environment before the file', () => {
    const env = { MUSTER_PORT: '2' }
    expect(resolve({ ...file('port: 3'), env, flags: { port: '1' } }).port).toBe(1)
    expect(resolve({ ...file('port: 3'), env }).port).toBe(2)
    expect(resolve(file('port: 3')).port).toBe(3)
  })

  it('is an alias in the environment, after the own name', () => {
    const alias = { LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT: '20m0s' }
    expect(resolve({ env: alias }).installTimeout).toBe(1_200_000)
    expect(resolve({ ...file('backend-install-timeout: 1h'), env: alias }).installTimeout).toBe(1_200_000)
    expect(resolve({ env: { ...alias, MUSTER_BACKEND_INSTALL_TIMEOUT: '5m' } }).installTimeout).toBe(300_000)
  })

  it('is not an empty variable', () => {
    expect(resolve({ env: { MUSTER_PORT: '', MUSTER_GALLERY: '' } })).toMatchObject({ port: 8080, gallery: [] })
  })
})

describe('kinds', () => {
  it('have the types of their values', () => {
    expectTypeOf(resolve()).toEqualTypeOf<{
      readonly host: string
      readonly name: string | undefined
      readonly port: number
      readonly attempts: number
      readonly autoApprove: boolean
      readonly nodeTimeout: number
      readonly installTimeout: number
      readonly wait: number | undefined
      readonly gallery: readonly string[]
      readonly labels: Readonly<Record<string, string>>
      readonly format: 'text' | 'json'
      readonly adminKey: Secret | undefined
      readonly token: Secret | undefined
    }>()
  })

  it.each([
    [true, true],
    [false, false],
    ['yes', true],
    ['OFF', false],
    ['1', true],
  ])('bool reads %s', (given, want) => {
    expect(resolve({ flags: { 'auto-approve': given } }).autoApprove).toBe(want)
  })

  it('duration takes 0 as the default', () => {
    expect(resolve({ flags: { 'node-timeout': '0', wait: '0s' }, ...file('node-timeout: 1h') })).toMatchObject({
      nodeTimeout: 15_000,
      wait: undefined,
    })
  })

  it('list is a repeated flag, a variable with commas, a list of YAML', () => {
    expect(resolve({ flags: { gallery: ['a=http://x/?a,b', 'b=2'] } }).gallery).toEqual(['a=http://x/?a,b', 'b=2'])
    expect(resolve({ flags: { gallery: 'a=1' } }).gallery).toEqual(['a=1'])
    expect(resolve({ env: { MUSTER_GALLERY: 'a=1, b=2,' } }).gallery).toEqual(['a=1', 'b=2'])
    expect(resolve(file('gallery:\n  - a=1,2\n  - b=2')).gallery).toEqual(['a=1,2', 'b=2'])
    expect(resolve(file('gallery: { a: 1 }')).gallery).toEqual(['a=1'])
    expect(resolve(file('gallery: a=1,b=2')).gallery).toEqual(['a=1', 'b=2'])
  })

  it('map is k=v, with commas or repeated, or a map of YAML', () => {
    const want = { zone: 'a', 'gpu.count': '2', eq: 'x=y', none: '' }
    expect(resolve({ flags: { labels: ['zone=a,gpu.count=2', 'eq=x=y,none='] } }).labels).toEqual(want)
    expect(resolve({ env: { MUSTER_LABELS: 'zone=a, gpu.count=2, eq=x=y, none=' } }).labels).toEqual(want)
    expect(resolve(file('labels:\n  zone: a\n  gpu.count: 2\n  eq: x=y\n  none: ""')).labels).toEqual(want)
    expect(resolve(file('labels: { a: "1,2", __proto__: x }')).labels).toEqual(
      Object.fromEntries([
        ['a', '1,2'],
        ['__proto__', 'x'],
      ]),
    )
  })

  it('values are frozen', () => {
    const values = resolve({ env: { MUSTER_LABELS: 'a=1' } })
    for (const value of [values, values.labels, values.gallery]) expect(Object.isFrozen(value)).toBe(true)
  })
})

describe('secrets', () => {
  const readFile = (path: string): string => {
    if (path === '/run/key') return 'canary\n'
    throw new Error('ENOENT: no such file')
  }

  it('SEC26 come from the environment, or a file that it names, wrapped', () => {
    for (const env of [{ MUSTER_ADMIN_KEY: 'canary' }, { MUSTER_ADMIN_KEY_FILE: '/run/key' }]) {
      const values = resolve({ env, readFile })
      expect(values.adminKey?.reveal()).toBe('canary')
      expect(JSON.stringify(values)).not.toContain('canary')
    }
  })

  it('SEC26 are not taken from the command line, unless the definition allows it', () => {
    expect(() => resolve({ flags: { 'admin-key': 'canary' } })).toThrow(
      '--admin-key (from the command line): all users of this machine can read a secret there; set MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE instead',
    )
    expect(resolve({ flags: { token: 'canary' } }).token?.reveal()).toBe('canary')
  })

  it.each<[string, Partial<SettingsSources>, string]>([
    ['SEC1 an empty variable', { env: { MUSTER_TOKEN: '' } }, '--token (from MUSTER_TOKEN): it is empty'],
    ['SEC1 an empty flag', { flags: { token: '' } }, '--token (from the command line): it is empty'],
    ['SEC1 an empty file', { env: { MUSTER_TOKEN_FILE: '/empty' }, readFile: () => '\n' }, '--token (from MUSTER_TOKEN_FILE): it is empty'],
    [
      'a missing file',
      { env: { MUSTER_TOKEN_FILE: '/none' }, readFile },
      `--token (from MUSTER_TOKEN_FILE): cannot read "/none": ENOENT: no such file`,
    ],
    ['both ways at once', { env: { MUSTER_TOKEN_FILE: '/run/key', MUSTER_TOKEN: 'x' }, readFile }, 'MUSTER_TOKEN is set too'],
  ])('%s is refused', (_what, sources, message) => {
    expect(() => resolve(sources)).toThrow(message)
  })

  it('are never shown by a refusal', () => {
    const check = (): string => 'it is too short'
    const strict = defineSettings({ key: secret({ flag: 'key', help: '', check }) })
    const attempt = () => resolveSettings(strict, { flags: {}, env: { MUSTER_KEY: 'canary' } })
    expect(attempt).toThrow('--key (from MUSTER_KEY): it is too short')
    expect(attempt).not.toThrow('canary')
  })
})

describe('a bad value is refused with flag, source and the accepted values', () => {
  it.each<[Partial<SettingsSources>, string]>([
    [{ flags: { port: '65536' } }, '--port (from the command line): "65536" is not a whole number from 0 up to 65535'],
    [{ env: { MUSTER_PORT: '80a' } }, '--port (from MUSTER_PORT): "80a" is not a whole number from 0 up to 65535'],
    [file('host: a\nport: 1.5'), '--port (from /etc/muster.yaml:2): "1.5" is not a whole number from 0 up to 65535'],
    [{ flags: { 'op-max-attempts': '9'.repeat(30) } }, 'is not a whole number from 1'],
    [{ flags: { port: true } }, '--port (from the command line): it needs a value'],
    [{ flags: { port: ['1', '2'] } }, '--port (from the command line): it takes exactly one value'],
    [file('port: [1]'), '--port (from /etc/muster.yaml:1): it takes one value, not several'],
    [{ env: { MUSTER_NODE_TIMEOUT: '-5s' } }, '--node-timeout (from MUSTER_NODE_TIMEOUT): "-5s" is negative: use a number and a unit'],
    [
      { env: { LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT: 'x' } },
      '--backend-install-timeout (from LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT): "x" is not a duration',
    ],
    [file('node-timeout: 15'), '--node-timeout (from /etc/muster.yaml:1): "15" is not a duration: use a number and a unit, as in 500ms'],
    [{ env: { MUSTER_AUTO_APPROVE: 'maybe' } }, '--auto-approve (from MUSTER_AUTO_APPROVE): "maybe" is neither true nor false'],
    [{ flags: { 'log-format': 'xml' } }, '--log-format (from the command line): "xml" is not one of text, json'],
    [{ flags: { labels: 'zone' } }, '--labels (from the command line): "zone" is not of the form key=value'],
    [{ flags: { labels: ['a=1', 'a=2'] } }, '--labels (from the command line): "a" is given twice'],
    [{ env: { MUSTER_LABELS: 'node.name=x' } }, '--labels (from MUSTER_LABELS): node.name is set by Muster'],
  ])('%j', (sources, message) => {
    expect(() => resolve(sources)).toThrow(message)
    expect(() => resolve(sources)).toThrow(expect.objectContaining({ name: 'SettingsError' }))
  })
})

describe('the configuration file', () => {
  it('may be empty', () => {
    for (const text of ['', '# nothing\n', '---\n', '{}']) expect(resolve(file(text)).port).toBe(8080)
  })

  it('keeps text as it was written', () => {
    expect(resolve(file('name: 007\nhost: "a\\tb"')).name).toBe('007')
    expect(resolve(file('name: yes')).name).toBe('yes')
    expect(resolve(file('host: "a\\tb"')).host).toBe('a\tb')
  })

  it('may hold keys of other commands', () => {
    const text = 'port: 1\ngateway-listen: x'
    expect(resolve({ file: { path: 'f', text, alsoKnown: ['gateway-listen'] } }).port).toBe(1)
  })

  it.each([
    [
      'an unknown key',
      'port: 1\n\nnode_timeot: 15s',
      '/etc/muster.yaml:3: unknown key "node_timeot"; the closest known key is node-timeout',
    ],
    ['a key twice', 'port: 1\nport: 2', '/etc/muster.yaml:2: Map keys must be unique'],
    ['broken YAML', 'port: 1\nhost: "a\nname: canary', /^\/etc\/muster\.yaml:3: Missing closing "quote/],
    ['a list', '- port', '/etc/muster.yaml:1: the file holds no settings of the form key: value'],
    ['a key without a value', 'host: a\nport:', '--port (from /etc/muster.yaml:2): it has no value'],
    ['nesting', 'labels: { a: { b: c } }', '--labels (from /etc/muster.yaml:1): it has no value, or one that is nested too deep'],
    ['an alias', 'host: &a x\nname: *a', '--name (from /etc/muster.yaml:2): it has no value'],
    ['a key that is no text', '? [a]\n: 1', '/etc/muster.yaml:1: unknown key ""'],
  ])('is refused with %s, in one line', (_what, text, message) => {
    expect(() => resolve(file(text))).toThrow(message)
    expect(() => resolve(file(text))).toThrow(
      expect.objectContaining({ name: 'SettingsError', message: expect.not.stringContaining('\n') }),
    )
  })
})

describe('definitions', () => {
  it('can be listed, for options and documentation', () => {
    const rows = Object.values(settings).map(({ flag, kind, defaultText, allowFlag }) => [flag, kind, defaultText, allowFlag])
    expect(rows).toContainEqual(['backend-install-timeout', 'duration', '15m', true])
    expect(rows).toContainEqual(['admin-key', 'secret', '', false])
    expect(rows).toContainEqual(['port', 'int', '8080', true])
    expect(map({ flag: 'labels', help: '', default: { a: '1', b: '2' } }).defaultText).toBe('a=1,b=2')
  })

  it('cannot share a flag or a variable', () => {
    const one = string({ flag: 'a-b', help: '' })
    expect(() => defineSettings({ one, two: one })).toThrow('two settings read MUSTER_A_B')
    expect(() => defineSettings({ one, two: string({ flag: 'c', help: '', aliases: ['MUSTER_A_B'] }) })).toThrow(
      'two settings read MUSTER_A_B',
    )
    expect(() => defineSettings({ one: string({ flag: '--a', help: '' }) })).toThrow('"--a" is not a name for a flag')
  })
})

describe('settings for people', () => {
  const explain = (sources: Partial<SettingsSources> = {}) =>
    new Map(explainSettings(settings, { flags: {}, env: {}, ...sources }).map((each) => [each.flag, each]))

  it.each<[string, string, Partial<SettingsSources>, { value: string; default: string; from: string }]>([
    ['nothing given', 'node-timeout', {}, { value: '15s', default: '15s', from: 'default' }],
    ['a flag', 'port', { flags: { port: '1' }, env: { MUSTER_PORT: '2' } }, { value: '1', default: '8080', from: 'the command line' }],
    ['a duration', 'node-timeout', { env: { MUSTER_NODE_TIMEOUT: '90s' } }, { value: '90s', default: '15s', from: 'MUSTER_NODE_TIMEOUT' }],
    [
      'an alias',
      'backend-install-timeout',
      { env: { LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT: '60m' } },
      { value: '1h', default: '15m', from: 'LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT' },
    ],
    ['the file', 'auto-approve', file('\nauto-approve: yes'), { value: 'true', default: 'false', from: '/etc/muster.yaml:2' }],
    ['a list', 'gallery', { flags: { gallery: ['a=x', 'b=y'] } }, { value: 'a=x, b=y', default: '', from: 'the command line' }],
    ['a map', 'labels', { env: { MUSTER_LABELS: 'a=1,b=2' } }, { value: 'a=1, b=2', default: '', from: 'MUSTER_LABELS' }],
    ['no default', 'wait', {}, { value: '', default: '', from: 'default' }],
  ])('%s', (_, flag, sources, want) => {
    expect(explain(sources).get(flag)).toMatchObject({ ...want, isSecret: false })
  })

  it('SEC26 hold no secret, nor a password inside of an address', () => {
    const canary = 'canary-canary-canary'
    const all = explain({
      env: { MUSTER_ADMIN_KEY: canary, MUSTER_HOST: `nats://u:${canary}@a:1,nats://${canary}@b:1/x@y` },
      flags: { token: canary, gallery: [`a=https://${canary}@h/p`] },
    })
    expect(JSON.stringify([...all.values()])).not.toContain('canary')
    expect(all.get('admin-key')).toMatchObject({ value: 'set', default: 'not set', isSecret: true, from: 'MUSTER_ADMIN_KEY' })
    expect(all.get('host')?.value).toBe('nats://***@a:1,nats://***@b:1/x@y')
    expect(explain().get('admin-key')).toMatchObject({ value: 'not set', from: 'default' })
  })
})
