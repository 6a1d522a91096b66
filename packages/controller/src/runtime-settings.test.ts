import { type ExplainedSetting, explainSettings, resolveSettings, silentLog, type SettingsSources, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import type { ChangeListener } from './events/feed.ts'
import { createRuntimeSettings, createSettingsLoop } from './runtime-settings.ts'
import type { SettingPin } from './runtime-settings.pure.ts'
import { controllerSettings, runtimeSettings } from './settings.ts'

const create = (sources: Partial<SettingsSources> = {}) => {
  const from = { flags: {}, env: {}, ...sources }
  return createRuntimeSettings({
    given: resolveSettings(controllerSettings, from),
    explained: explainSettings(controllerSettings, from),
    log: silentLog,
  })
}
const stored = (texts: Readonly<Record<string, string>>) => new Map(Object.entries(texts))
const noFacts = { texts: stored({}), pins: [] as SettingPin[] }

describe('a setting at run time', () => {
  it.each<[string, Partial<SettingsSources>, Record<string, string>, number]>([
    ['is the default', {}, {}, 60_000],
    ['is the stored one before the default', {}, { 'model-load-wait': '30s' }, 30_000],
    ['is pinned by a flag', { flags: { 'model-load-wait': '10s' } }, { 'model-load-wait': '30s' }, 10_000],
    ['is pinned by the environment', { env: { MUSTER_MODEL_LOAD_WAIT: '10s' } }, { 'model-load-wait': '30s' }, 10_000],
    ['is pinned by the file', { file: { path: 'f', text: 'model-load-wait: 10s' } }, { 'model-load-wait': '30s' }, 10_000],
    ['is not changed by a text that this version cannot read', {}, { 'model-load-wait': 'soon' }, 60_000],
    ['is not changed by one that this version does not know', {}, { 'of-another-version': '1' }, 60_000],
  ])('%s', (_, sources, texts, want) => {
    const runtime = create(sources)
    const { settings } = runtime
    runtime.set(stored(texts))
    expect(settings.modelLoadWait).toBe(want)
  })

  it('changes in place, and reports the changed ones to those who have to act', () => {
    const runtime = create()
    const heard: string[][] = []
    runtime.onChanged((changed) => heard.push([...changed]))
    runtime.set(stored({ 'auto-approve': 'true', 'op-max-attempts': '3' }))
    runtime.set(stored({ 'auto-approve': 'true', 'op-max-attempts': '3' }))
    expect(runtime.settings).toMatchObject({ autoApprove: true, opMaxAttempts: 3, opRetryBase: 30_000 })
    runtime.set(stored({}))
    expect(runtime.settings).toMatchObject({ autoApprove: false, opMaxAttempts: 10 })
    expect(heard).toEqual([
      ['auto-approve', 'op-max-attempts'],
      ['auto-approve', 'op-max-attempts'],
    ])
  })

  it('exists for each of the list, and for no secret', () => {
    const runtime = create()
    for (const name of Object.keys(runtimeSettings)) expect(Object.getOwnPropertyDescriptor(runtime.settings, name)?.get).toBeDefined()
    expect(Object.values(runtimeSettings).map(({ kind }) => kind)).not.toContain('secret')
  })
})

describe('a request', () => {
  const pins = [{ flag: 'auto-upgrade', controller: 'http://b:8080', from: 'MUSTER_AUTO_UPGRADE' }]
  const decide = (requests: Readonly<Record<string, string | null>>, texts = {}, sources = {}) =>
    create(sources).decide(
      Object.entries(requests).map(([flag, value]) => ({ flag, value })),
      { ...noFacts, texts: stored(texts), pins },
    )

  it.each<[string, Record<string, string | null>, object]>([
    ['a new value in its usual form', { 'model-load-wait': '120s' }, { changes: [{ flag: 'model-load-wait', before: null, after: '2m' }] }],
    ['a changed value', { 'history-retention': '7d' }, { changes: [{ flag: 'history-retention', before: '14d', after: '7d' }] }],
    ['no change', { 'history-retention': '14d' }, { changes: [] }],
    ['back to the default', { 'history-retention': null }, { changes: [{ flag: 'history-retention', before: '14d', after: null }] }],
    [
      'a value beside one that this version cannot read',
      { 'idle-scale-down': '1m' },
      { changes: [{ flag: 'idle-scale-down', before: null, after: '1m' }] },
    ],
    ['the default of a setting without a value', { 'idle-scale-down': null }, { changes: [] }],
    ['a word', { 'disk-check': 'warn' }, { changes: [{ flag: 'disk-check', before: null, after: 'warn' }] }],
  ])('is accepted: %s', (_, requests, want) => {
    expect(decide(requests, { 'history-retention': '14d', 'op-max-attempts': 'many' })).toEqual({ outcome: 'ok', ...want })
  })

  it.each<[string, Record<string, string | null>, string, RegExp]>([
    [
      'an unknown name',
      { 'model-load-wiat': '1s' },
      'unknown',
      /unknown field "model-load-wiat"; the closest known field is model-load-wait/,
    ],
    ['a setting of the start', { port: '9000' }, 'fixed', /--port is read at the start.*restart/],
    ['a secret', { 'admin-key': 'x'.repeat(20) }, 'fixed', /admin-key/],
    ['a value that cannot be read', { 'model-load-wait': '5' }, 'invalid', /model-load-wait: "5" is not a duration/],
    ['a negative duration', { 'model-load-wait': '-5s' }, 'invalid', /negative/],
    ['a number out of range', { 'op-max-attempts': '0' }, 'invalid', /whole number from 1/],
    ['two that do not fit together', { 'op-retry-base': '1h' }, 'invalid', /--op-retry-max must not be shorter/],
    ['one that another controller pins', { 'auto-upgrade': 'true' }, 'pinned', /MUSTER_AUTO_UPGRADE of the controller http:\/\/b:8080/],
    ['one wrong among right ones', { 'model-load-wait': '30s', 'auto-upgrade': 'true' }, 'pinned', /auto-upgrade/],
  ])('is refused: %s', (_, requests, outcome, message) => {
    expect(decide(requests)).toMatchObject({ outcome, message: expect.stringMatching(message) })
  })
})

describe('the settings of a controller, for people', () => {
  const find = (list: readonly { flag: string }[], flag: string): unknown => list.find((each) => each.flag === flag)

  it('have the value in effect, its origin, and who pins it', () => {
    const runtime = create({ flags: { 'auto-upgrade': 'true' } })
    runtime.set(stored({ 'model-load-wait': '30s', 'auto-upgrade': 'false' }))
    const pins = Object.entries(runtime.pinned).map(([flag, from]) => ({ flag, from, controller: 'http://a' }))
    const shown = runtime.explain(pins)
    expect(find(shown, 'model-load-wait')).toMatchObject({ value: '30s', from: 'an administrator', is_runtime: true, pinned_by: null })
    expect(find(shown, 'auto-upgrade')).toMatchObject({
      value: 'true',
      from: 'the command line',
      pinned_by: 'the command line of http://a',
    })
    expect(find(shown, 'port')).toMatchObject({ value: '8080', is_runtime: false, pinned_by: null })
    const isShown = (flag: string): flag is ExplainedSetting['flag'] => find(shown, flag) !== undefined
    expect(Object.values(controllerSettings).every(({ flag }) => isShown(flag))).toBe(true)
  })
})

describe('the loop', () => {
  it('reads after a change, and keeps the last values while the database cannot be read', async () => {
    const runtime = create()
    let answer: () => Promise<Map<string, string>> = async () => stored({ 'model-load-wait': '30s' })
    let reads = 0
    let notify: ChangeListener = () => undefined
    const loop = createSettingsLoop({
      runtime,
      read: async () => {
        reads += 1
        return await answer()
      },
      feed: { listen: (listener) => ((notify = listener), () => undefined) },
      clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms === 30_000 ? ms : 1, signal) },
      log: silentLog,
    })
    const stopping = new AbortController()
    const running = loop.run(stopping.signal)
    await waitFor(() => runtime.settings.modelLoadWait === 30_000, { what: 'the first reading' })
    answer = () => Promise.reject(new Error('the database is down'))
    const before = reads
    const change = (id: string) => notify({ changes: [{ kind: 'settings', id, seq: 1, deleted: false }], cursor: 1 })
    change('galleries')
    change('runtime')
    await waitFor(() => reads >= before + 2, { what: 'two failed readings' })
    expect(runtime.settings.modelLoadWait).toBe(30_000)
    answer = async () => stored({})
    await waitFor(() => runtime.settings.modelLoadWait === 60_000, { what: 'the reading after the outage' })
    stopping.abort()
    await running
  })
})
