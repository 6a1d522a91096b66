// Settings that administrators change while two controllers run on one database.
import { createLocalHub } from '@muster/bus'
import { silentLog } from '@muster/host'
import { createTestDatabase, makeTempDir, startTestController, waitFor, type TestController } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

let controllers: TestController[]
const endings: (() => Promise<unknown>)[] = []
const first = (): TestController => controllers[0] ?? expect.unreachable()
const second = (): TestController => controllers[1] ?? expect.unreachable()

beforeAll(async () => {
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  const hub = createLocalHub({ log: silentLog })
  const start = async (flags: Readonly<Record<string, string>>): Promise<TestController> => {
    const directory = await makeTempDir()
    const started = await startTestController({ directory: directory.path, databaseUrl: database.url, hub, flags })
    endings.unshift(
      () => started.stop(),
      () => directory.remove(),
    )
    return started
  }
  endings.push(() => database.drop())
  controllers = [await start({}), await start({ 'op-retry-max': '10m' })]
})
afterAll(async () => {
  for (const end of endings) await end()
})

interface Setting {
  readonly flag: string
  readonly value: string
  readonly from: string
  readonly pinned_by: string | null
}

async function settingOf({ api }: TestController, flag: string): Promise<Setting> {
  const { settings } = (await api.get('/api/settings')).body as unknown as { settings: Setting[] }
  return settings.find((each) => each.flag === flag) ?? expect.unreachable()
}

describe('PATCH /api/settings', () => {
  it('changes a setting on every controller within a second, records who changed it, and takes it back', async () => {
    const answer = await first().api.patch('/api/settings', { 'model-load-wait': '90s', 'op-max-attempts': 5 })
    expect(answer.status).toBe(200)
    const since = performance.now()
    await waitFor(async () => (await settingOf(second(), 'model-load-wait')).value === '90s', {
      what: 'the change at the other controller',
    })
    // Generous for a busy machine: without the change feed it would be the poll of 30 s.
    expect(performance.now() - since).toBeLessThan(10_000)
    expect(await settingOf(second(), 'op-max-attempts')).toMatchObject({ value: '5', from: 'an administrator', pinned_by: null })

    await second().api.patch('/api/settings', { 'model-load-wait': null })
    await waitFor(async () => (await settingOf(first(), 'model-load-wait')).from === 'default', {
      what: 'the default at the first controller',
    })
    const { changes } = (await first().api.get('/api/settings/changes')).body as unknown as { changes: object[] }
    expect(changes).toMatchObject([
      { setting: 'model-load-wait', changed_by: expect.stringContaining('key'), before: '90s', after: null },
      { setting: 'op-max-attempts', before: null, after: '5' },
      { setting: 'model-load-wait', before: null, after: '90s' },
    ])
    expect((await first().api.get('/api/settings/changes?limit=1')).body['changes']).toHaveLength(1)
  })

  it.each<[string, object, [number, string, RegExp]]>([
    ['an unknown setting', { 'model-load-wiat': '1s' }, [400, 'invalid', /the closest known field is model-load-wait/]],
    ['a wrong value', { 'auto-approve': 'perhaps' }, [400, 'invalid', /neither true nor false/]],
    ['a setting of the start', { 'nats-url': 'nats://x' }, [409, 'setting_is_fixed', /restart/]],
    [
      'a setting that another controller pins',
      { 'op-retry-max': '20m' },
      [409, 'setting_is_pinned', /the command line of the controller http/],
    ],
  ])('refuses %s, and changes nothing', async (_, body, [status, code, message]) => {
    const before = (await first().api.get('/api/settings/changes')).body
    const refused = async () => await first().api.patch('/api/settings', body)
    await waitFor(async () => (await refused()).status === status, { what: 'the refusal' })
    expect((await refused()).body).toMatchObject({ error: { code, message: expect.stringMatching(message) } })
    expect((await first().api.get('/api/settings/changes')).body).toEqual(before)
  })

  it('needs an admin key', async () => {
    const { body } = await first().api.post('/api/keys', { name: 'looks', scope: 'read' })
    const headers = { authorization: `Bearer ${String(body['key'])}`, 'content-type': 'application/json' }
    const patched = await fetch(`${first().url}/api/settings`, { method: 'PATCH', headers, body: '{"auto-approve":true}' })
    expect(patched.status).toBe(403)
    expect((await fetch(`${first().url}/api/settings/changes`, { headers })).status).toBe(200)
  })
})
