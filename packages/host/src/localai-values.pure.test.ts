import { describe, expect, it } from 'vitest'
import {
  isOff,
  readGalleries,
  splitAtCommas,
  toCapability,
  toDiskCheck,
  toEndpoint,
  toGalleries,
  toHost,
  toLogFormat,
  toLogLevel,
  toPort,
  toSharedDirectory,
  toSingleReplica,
  toTruth,
  type TranslateValue,
} from './localai-values.pure.ts'

describe('a value of LocalAI', () => {
  it.each<[string, TranslateValue, string, readonly string[] | null]>([
    ['an address of every interface: its host', toHost, ':8080', ['0.0.0.0']],
    ['an address of every interface: its port', toPort, ':8080', ['8080']],
    ['an address of one interface', toHost, '10.0.0.1:9000', ['10.0.0.1']],
    ['an IPv6 address: its host', toHost, '[::1]:9000', ['::1']],
    ['an IPv6 address: its port', toPort, '[::1]:9000', ['9000']],
    ['labels', splitAtCommas, 'tier=fast, gpu=a100,', ['tier=fast', 'gpu=a100']],
    ['no labels', splitAtCommas, ' , ', null],
    ["Go's short word for true", toTruth, 'T', ['true']],
    ['another word, which the setting judges', toTruth, 'maybe', ['maybe']],
    ['the level trace', toLogLevel, 'trace', ['debug']],
    ['a level in capitals', toLogLevel, 'WARN', ['warn']],
    ['the format default', toLogFormat, 'default', ['text']],
    ['the format json', toLogFormat, 'JSON', ['json']],
    ['a capability', toCapability, 'nvidia-cuda-12', ['nvidia-cuda-12']],
    ['no capability', toCapability, 'disable', null],
    ['no disk check', toDiskCheck, 'false', ['warn']],
    ['a disk check', toDiskCheck, 'true', ['refuse']],
    ['one active backend', toSingleReplica, 'true', ['1']],
    ['several active backends', toSingleReplica, 'false', null],
    ['a mirror without a scheme', toEndpoint, 'hf.example', ['https://hf.example']],
    ['a mirror with one', toEndpoint, 'http://hf.example', ['http://hf.example']],
  ])('%s', (_, translate, value, want) => expect(translate(value, {})).toEqual(want))

  it.each(['8080', 'a:b:c', ':x', ''])('refuses the address %j', (value) => expect(() => toHost(value, {})).toThrow('is not an address'))

  it.each<[Record<string, string>, readonly string[] | null]>([
    [{ LOCALAI_MODELS_PATH: '/srv/models' }, ['/srv/models']],
    [{ MODELS_PATH: '/m' }, ['/m']],
    [{ LOCALAI_MODELS_PATH: 'models' }, null],
    [{}, null],
  ])('shares the models directory of %j', (env, want) => expect(toSharedDirectory('true', env)).toEqual(want))

  it.each(['', '0', 'false', 'OFF', '0s'])('%j asks for nothing', (value) => expect(isOff(value)).toBe(true))
})

describe('galleries of LocalAI', () => {
  it('keep the names of galleries of models, and tell those of backends apart', () => {
    const json = '[{"name":"localai","url":"github:o/r/index.yaml@master","mirrors":["https://a/i.yaml","https://b/i.yaml"]}]'
    expect(toGalleries('model')(json, {})).toEqual([
      'localai=github:o/r/index.yaml@master',
      'localai-mirror-1=https://a/i.yaml',
      'localai-mirror-2=https://b/i.yaml',
    ])
    expect(toGalleries('backend')(json, {})?.[0]).toBe('localai-backends=github:o/r/index.yaml@master')
  })

  it.each([
    ['a plain path', { name: 'a', url: '/srv/index.yaml' }, { name: 'a', url: 'file:///srv/index.yaml' }],
    ['a name with blanks', { name: ' my gallery!', url: 'https://a' }, { name: 'my-gallery-', url: 'https://a' }],
    ['a name without any letter', { name: '--', url: 'https://a' }, { name: 'gallery', url: 'https://a' }],
  ])('have usable names and URLs: %s', (_, entry, want) => expect(readGalleries([entry], 'model')).toEqual([want]))

  it('keep the first of two with one name', () =>
    expect(
      readGalleries(
        [
          { name: 'a', url: 'https://1' },
          { name: 'a', url: 'https://2' },
        ],
        'model',
      ),
    ).toEqual([{ name: 'a', url: 'https://1' }]))

  it.each(['not json', '{}', '[{"name":"a"}]', '[1]', '[{"name":"","url":"https://a"}]'])('refuse %s', (text) =>
    expect(() => toGalleries('model')(text, {})).toThrow(/gallery|galleries/),
  )
})
