// `muster import localai` against a scripted controller: one failure never stops the rest.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { backendRoutes, galleryRoutes, keyRoutes, modelRoutes } from '@muster/protocol'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { modelView } from './model-views.ts'
import { type Result, runInProcess } from './run-in-process.ts'
import { type ScriptedController, startScriptedController } from './scripted-controller.ts'

let controller: ScriptedController
let dir: TempDir
beforeEach(async () => {
  controller = await startScriptedController()
  dir = await makeTempDir('import')
  for (const folder of ['models', 'configuration', 'backends/b']) await mkdir(join(dir.path, folder), { recursive: true })
  await writeFile(join(dir.path, 'models/all.yaml'), '- {name: one, backend: echo}\n- {name: two, backend: echo}\n')
  await writeFile(join(dir.path, 'backends/b/run.sh'), '')
  await writeFile(join(dir.path, 'configuration/api_keys.json'), '["first-secret", "second-secret"]')
  await writeFile(join(dir.path, 'configuration/runtime_settings.json'), '{"galleries": [], "backend_galleries": []}')
})
afterEach(async () => {
  await controller[Symbol.asyncDispose]()
  await dir[Symbol.asyncDispose]()
})

const run = (...args: string[]): Promise<Result> =>
  runInProcess(['import', 'localai', dir.path, '-o', 'json', ...args], { MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const itemsOf = ({ stdout }: Result) =>
  (JSON.parse(stdout) as { items: { kind: string; name: string; outcome: string }[] }).items.map(
    ({ kind, name, outcome }) => `${kind} ${name} ${outcome}`,
  )
const key = { id: 'k-1', name: 'localai-1', scope: 'inference' as const, created_at: '2030-01-01T00:00:00Z', last_used_at: null, key: null }

it('reports a part that fails, and goes on', async () => {
  controller.answer(galleryRoutes.list, { galleries: [] })
  controller.refuse(backendRoutes.list, 500, { code: 'internal', message: 'no' })
  controller.answer(modelRoutes.put, modelView({ name: 'one' }))
  controller.refuse(keyRoutes.create, 500, { code: 'internal', message: 'no' })
  const result = await run()
  expect(result.code).toBe(1)
  expect(itemsOf(result)).toEqual([
    'backend all failed',
    'model one created',
    'model two created',
    'key localai-1 failed',
    'key localai-2 failed',
  ])
})

it('sends hashes of keys and no secret', async () => {
  controller.answer(galleryRoutes.list, { galleries: [] })
  controller.answer(keyRoutes.create, key)
  const result = await run('--only', 'keys', '--keys', 'admin')
  expect(itemsOf(result)).toEqual(['key localai-1 created', 'key localai-2 created'])
  const sent = controller.asked.filter(({ method }) => method === 'POST').map(({ body }) => body)
  expect(sent).toMatchObject([{ name: 'localai-1', scope: 'admin', secret_hash: expect.stringMatching(/^[0-9a-f]{64}$/) }, {}])
  expect(JSON.stringify([sent, result])).not.toMatch(/first-secret|second-secret/)
})

it('tries no further model when the controller refuses the key', async () => {
  controller.answer(galleryRoutes.list, { galleries: [] })
  controller.refuse(modelRoutes.put, 403, { code: 'forbidden', message: 'this key may not do that' })
  const result = await run('--only', 'models')
  expect(itemsOf(result)).toEqual(['model one failed', 'model two failed'])
  expect(controller.asked.filter(({ method }) => method === 'PUT')).toHaveLength(1)
})

it('sends nothing but reads and validations in a dry run', async () => {
  controller.answer(galleryRoutes.list, { galleries: [] })
  controller.answer(backendRoutes.list, { backends: [] })
  controller.answer(backendRoutes.gallery, { backends: [], problems: [], left_out: [] })
  controller.answer(modelRoutes.validate, { valid: false, problems: [{ message: 'no such backend' }] })
  const result = await run('--dry-run', '--backends', 'install')
  expect(itemsOf(result)).toEqual([
    'backend b created',
    'model one refused',
    'model two refused',
    'key localai-1 created',
    'key localai-2 created',
  ])
  const changing = controller.asked.filter(({ method, path }) => method !== 'GET' && path !== '/api/models/validate')
  expect(changing).toEqual([])
})

it('without a controller there is no report', async () => {
  await controller.goAway()
  expect(await run()).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('nothing listens') })
})
