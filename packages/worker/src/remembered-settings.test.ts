import { resolveSettings, type SettingsSources } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { rememberedSettings, RememberedSettings, type EffectiveSettings, mergeSettings, workerSettings } from './settings.ts'

const settle = (flags: SettingsSources['flags'], before: RememberedSettings = {}): EffectiveSettings =>
  mergeSettings(resolveSettings(workerSettings, { flags, env: {} }), before)
const all = {
  name: 'gpu-1',
  labels: 'a=b',
  'prefetch-models': 'tiny,team/big',
  type: 'agent',
  'gateway-listen': '10.0.0.5:9000',
  'gateway-url': 'https://w.example',
  capability: 'vulkan',
  'max-replicas': '4',
  'max-memory': '12GB',
  'max-replicas-per-model': '2',
  'vram-budget': '80%',
}

describe('the remembered settings of a worker', () => {
  it('are the defaults at first', () =>
    expect(settle({})).toMatchObject({ name: undefined, labels: {}, type: 'backend', gatewayListen: undefined, gatewayUrl: undefined }))

  it('hold at the next start, also through the file', () => {
    const first = settle(all)
    const kept = RememberedSettings.parse(JSON.parse(JSON.stringify(rememberedSettings(first))))
    expect(settle({}, kept)).toEqual(first)
  })

  it.each<[string, string, Partial<EffectiveSettings>]>([
    ['name', 'gpu-2', { name: 'gpu-2' }],
    ['labels', 'c=d', { labels: { c: 'd' } }],
    ['labels', '', { labels: {} }],
    ['prefetch-models', 'tiny, other', { prefetchModels: ['tiny', 'other'] }],
    ['prefetch-models', '', { prefetchModels: [] }],
    ['type', 'backend', { type: 'backend' }],
    ['gateway-listen', ':9001', { gatewayListen: ':9001' }],
    ['gateway-listen', '', { gatewayListen: undefined }],
    ['gateway-url', '', { gatewayUrl: undefined }],
    ['capability', '', { capability: undefined }],
    ['name', '', { name: undefined }],
    ['max-replicas', '0', { maxReplicas: undefined }],
    ['max-memory', '', { maxMemory: undefined }],
    ['max-replicas-per-model', '0', { maxReplicasPerModel: undefined }],
    ['vram-budget', '', { vramBudget: undefined }],
    ['max-memory', '8GiB', { maxMemory: '8GiB' }],
  ])('is changed by --%s %j alone, for good', (flag, value, want) => {
    const first = settle(all)
    const changed = settle({ [flag]: value }, rememberedSettings(first))
    expect(changed).toEqual({ ...first, ...want })
    expect(settle({}, rememberedSettings(changed))).toEqual(changed)
  })
})
