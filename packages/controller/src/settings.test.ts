import { resolveSettings } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { checkSettings, controllerSettings, galleriesOf } from './settings.ts'

const read = (flags: Readonly<Record<string, readonly string[]>>) => {
  const settings = resolveSettings(controllerSettings, { flags, env: {} })
  checkSettings(settings)
  return galleriesOf(settings)
}

describe('--gallery and --model-gallery', () => {
  it('name galleries in their order, backends first', () => {
    expect(
      read({ 'model-gallery': ['m=file:///srv/m.yaml'], gallery: ['b=https://example.com/b?x=1,2', 'a=github:o/r/a.yaml@v1'] }),
    ).toEqual([
      { name: 'b', url: 'https://example.com/b?x=1,2', kind: 'backend' },
      { name: 'a', url: 'github:o/r/a.yaml@v1', kind: 'backend' },
      { name: 'm', url: 'file:///srv/m.yaml', kind: 'model' },
    ])
  })

  it.each([
    ['no name', { gallery: ['https://example.com'] }, '--gallery'],
    ['a name that is a path', { gallery: ['../x=https://example.com'] }, 'a gallery name is'],
    ['no URL', { 'model-gallery': ['x='] }, '--model-gallery'],
    ['the name of the built-in one', { gallery: ['builtin=https://example.com'] }, 'comes with Muster'],
    ['one name for two', { gallery: ['x=https://example.com'], 'model-gallery': ['x=https://example.com'] }, 'a name of its own'],
  ])('refuse %s', (_, flags, says) => {
    expect(() => read(flags)).toThrow(says)
  })
})

describe('--drain-delay and --drain-timeout', () => {
  const drain = (flags: Readonly<Record<string, string>>) => {
    const { drainDelay, drainTimeout } = resolveSettings(controllerSettings, { flags, env: {} })
    return [drainDelay, drainTimeout]
  }

  it('take 0, which is not their default', () => {
    expect(drain({})).toEqual([undefined, 60_000])
    expect(drain({ 'drain-delay': '0', 'drain-timeout': '0s' })).toEqual([0, 0])
  })
})

describe('--allow-source', () => {
  it.each(['registry.internal', '10.0.0.5:5000', '10.0.0.0/8', '[fd00::1]:5000', 'fd00::/8'])('takes %s', (source) => {
    expect(() => read({ 'allow-source': [source] })).not.toThrow()
  })

  it.each(['https://registry.internal', '10.0.0.0/33', 'a b', '*.internal', 'host:0', ''])('refuses %j, and names the flag', (source) => {
    expect(() => read({ 'allow-source': ['10.0.0.0/8', source] })).toThrow(/--allow-source.*HOST:PORT/)
  })
})

const publicUrl = (url: string): string => resolveSettings(controllerSettings, { flags: { 'public-url': url }, env: {} }).publicUrl

it.each(['http://h:8080', 'https://muster.example/'])('takes %s for its public URL', (url) => expect(publicUrl(url)).toBe(url))

it.each(['ftp://h', 'h:8080', 'localhost:8080', 'javascript:alert(1)', 'file:///x', 'nonsense'])('refuses %s for its public URL', (url) => {
  expect(() => publicUrl(url)).toThrow(/--public-url .*http:\/\/ or https:\/\//)
})

const natsUrl = (url: string): string => resolveSettings(controllerSettings, { flags: { 'nats-url': url }, env: {} }).natsUrl

it.each(['nats://h:4222', 'nats://u:p@ss@h, tls://i', 'h:4222'])('takes %s for NATS servers', (url) => expect(natsUrl(url)).toBe(url))

it.each(['http://h', 'nats://u:sec/ret@h', 'nats://'])('refuses %s for NATS servers, without repeating it', (url) => {
  expect(() => natsUrl(url)).toThrow(/looks like nats:\/\/host:4222/)
  expect(() => natsUrl(url)).not.toThrow(/sec|ret@/)
})

describe('how long operations may take', () => {
  const minutes = 60_000
  const given = (flags: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) =>
    resolveSettings(controllerSettings, { flags, env })

  it('S1.18 S2.1 S2.2 is 15 minutes by default, and 0 means 15 minutes too', () => {
    for (const settings of [given({}), given({ 'backend-install-timeout': '0', 'backend-upgrade-timeout': '0s' })])
      expect(settings).toMatchObject({ backendInstallTimeout: 15 * minutes, backendUpgradeTimeout: 15 * minutes })
    expect(given({ 'backend-install-timeout': '2s' })).toMatchObject({ backendInstallTimeout: 2_000, backendUpgradeTimeout: 15 * minutes })
  })

  it('S2.1 S2.2 is read from the environment too, under the original’s names as well', () => {
    expect(given({}, { MUSTER_BACKEND_INSTALL_TIMEOUT: '3m' }).backendInstallTimeout).toBe(3 * minutes)
    const original = { LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT: '4m', LOCALAI_NATS_BACKEND_UPGRADE_TIMEOUT: '5m' }
    expect(given({}, original)).toMatchObject({ backendInstallTimeout: 4 * minutes, backendUpgradeTimeout: 5 * minutes })
  })

  it.each([
    ['S2.3', 'backend-install-timeout', 'soon'],
    ['S2.3', 'backend-upgrade-timeout', '15'],
    ['S2.4', 'backend-install-timeout', '-5s'],
    ['S2.4', 'backend-upgrade-timeout', '-1m'],
    ['S2.4', 'op-retry-base', '-1s'],
    ['S2.4', 'op-stall-timeout', 'never'],
  ])('%s is refused by the name of its flag: --%s %s', (_, flag, value) => {
    expect(() => given({ [flag]: value })).toThrow(`--${flag}`)
  })

  it('S0.12 S0.13 makes ten attempts, over more than an hour, by default', () => {
    expect(given({})).toMatchObject({ opRetryBase: 30_000, opRetryMax: 15 * minutes, opMaxAttempts: 10, opStallTimeout: 2 * minutes })
    expect(() => checkSettings(given({ 'op-retry-base': '10m', 'op-retry-max': '1m' }))).toThrow('--op-retry-max')
  })
})
