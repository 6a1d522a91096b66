import { resolveSettings, type SettingsSources } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { workerSettings } from './settings.ts'

const resolve = (flags: SettingsSources['flags'], env: SettingsSources['env'] = {}) => resolveSettings(workerSettings, { flags, env })

describe('the settings of a worker', () => {
  it('distinguish given settings from absent ones', () => {
    expect(resolve({})).toEqual({
      join: undefined,
      token: undefined,
      name: undefined,
      labels: undefined,
      type: undefined,
      gatewayListen: undefined,
      gatewayUrl: undefined,
      capability: undefined,
      maxReplicas: undefined,
      maxMemory: undefined,
      maxReplicasPerModel: undefined,
      vramBudget: undefined,
      allowSource: [],
      dockerConfig: '',
      credentials: '',
      sourceCa: '',
      natsCa: '',
      natsCert: '',
      natsKey: '',
      modelDir: '',
      sharedModels: '',
      hfEndpoint: 'https://huggingface.co',
      hfToken: undefined,
      s3Endpoint: '',
      s3Region: 'us-east-1',
      s3AccessKeyId: '',
      s3SecretAccessKey: undefined,
      s3SessionToken: undefined,
    })
  })

  it('take the variables of other programs for Hugging Face and S3, and refuse secrets on the command line', () => {
    const given = resolve({}, { HF_TOKEN: 'hf_x', HF_ENDPOINT: 'https://mirror.example', AWS_REGION: 'eu-1', AWS_SECRET_ACCESS_KEY: 'k' })
    expect(given).toMatchObject({ hfEndpoint: 'https://mirror.example', s3Region: 'eu-1' })
    expect([given.hfToken?.reveal(), given.s3SecretAccessKey?.reveal()]).toEqual(['hf_x', 'k'])
    expect(() => resolve({ 'hf-token': 'hf_x' })).toThrow(/MUSTER_HF_TOKEN/)
    expect(() => resolve({ 'model-dir': 'models' })).toThrow(/absolute/)
  })

  it('take the values of a command line', () => {
    const given = resolve({
      join: 'http://c:8080',
      token: 'secret',
      labels: 'a=1,b=2',
      type: 'agent',
      'gateway-listen': '10.0.0.5:0',
      'gateway-url': 'https://w.example',
      capability: 'nvidia-cuda-12',
    })
    expect(given).toMatchObject({ join: 'http://c:8080', labels: { a: '1', b: '2' }, type: 'agent', capability: 'nvidia-cuda-12' })
    expect(given.token?.reveal()).toBe('secret')
    expect(JSON.stringify(given)).not.toContain('secret')
  })

  it.each(['name', 'labels', 'gateway-listen', 'gateway-url', 'capability', 'max-memory', 'vram-budget'])(
    'take an empty --%s, which is a word of its own',
    (flag) => {
      expect(() => resolve({ [flag]: '' })).not.toThrow()
    },
  )

  it.each([
    ['max-memory', '12', /use 12GB or 512MiB/],
    ['max-memory', '0GB', /use 12GB or 512MiB/],
    ['max-replicas', '-1', /whole number from 0/],
    ['max-replicas-per-model', '-1', /whole number from 0/],
    ['vram-budget', '12', /a percentage \(80%\) or a size \(12GB\)/],
    ['vram-budget', '101%', /a percentage/],
  ])('refuse --%s %s', (flag, value, said) => {
    expect(() => resolve({ [flag]: value })).toThrow(said)
  })

  it('take the token from the environment', () => {
    expect(resolve({}, { MUSTER_TOKEN: 't' }).token?.reveal()).toBe('t')
  })

  it.each([
    ['join', 'c:8080', 'http://host:port'],
    ['join', 'http://c/path', 'http://host:port'],
    ['allow-source', 'https://c', 'HOST:PORT'],
    ['allow-source', '10.0.0.0/40', 'HOST:PORT'],
    ['name', 'a\u0000b', 'printable'],
    ['labels', '-x=1', 'label key'],
    ['labels', 'node.name=me', 'set by Muster'],
    ['type', 'gpu', 'backend, agent'],
    ['gateway-listen', 'http://x', '10.0.0.5:9000'],
    ['gateway-url', 'ftp://x', 'http://host:port'],
    ['capability', 'CUDA 12', 'a capability'],
  ])('refuse --%s %j, and say what is accepted', (flag, value, want) => {
    expect(() => resolve({ [flag]: value })).toThrow(new RegExp(`--${flag} .*${want}`))
  })
})
