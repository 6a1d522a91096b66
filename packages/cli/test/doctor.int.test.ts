// `muster doctor` as a user runs it: before the first start, beside a controller, and with servers that
// are not there.
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { version } from '@muster/host'
import { keyRoutes, systemRoutes } from '@muster/protocol'
import { createProcesses, freePort, makeTempDir, type TempDir } from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ScriptedController, startScriptedController } from './scripted-controller.ts'

const processes = createProcesses()
let dataDir: TempDir
let controller: ScriptedController
beforeEach(async () => {
  dataDir = await makeTempDir('doctor')
  controller = await startScriptedController()
})
afterEach(async () => {
  await controller[Symbol.asyncDispose]()
  await dataDir.remove()
})
afterAll(() => processes.stopAll())

interface Report {
  readonly ok: boolean
  readonly checks: ReadonlyArray<{ name: string; level: string; found: string; advice?: string }>
}

async function doctor(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  return await doctorAt([...['--port', String(await freePort())], ...args], env)
}

async function doctorAt(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const run = await processes.muster(['doctor', '-o', 'json', ...args], { env: { MUSTER_DATA_DIR: dataDir.path, ...env } })
  const { code } = await run.exited
  expect(run.stderr()).toBe('')
  const report = JSON.parse(run.stdout()) as Report
  return { code, report, check: (name: string) => report.checks.find((check) => check.name === name) }
}

function scriptHealthy(): void {
  controller.answer(systemRoutes.healthz, { status: 'ok' })
  controller.answer(systemRoutes.readyz, { status: 'ok' })
  controller.answer(systemRoutes.version, { version })
  controller.answer(keyRoutes.list, { keys: [] })
  controller.answer(systemRoutes.status, {
    version,
    controllers: [],
    database: { version: '18.4', now: new Date().toISOString() },
    bus: { kind: 'nats', connected: true },
    nodes: {},
  })
}

describe('doctor', () => {
  it('shows which variables of LocalAI are used, and which have no effect, without their values', async () => {
    const token = 'a-token-of-the-old-site'
    const { code, report } = await doctor([], {
      LOCALAI_REGISTRATION_TOKEN: token,
      LOCALAI_NODE_LABELS: 'rack=b2',
      LOCALAI_UPLOAD_LIMIT: '15',
      LOCALAI_P2P: 'true',
    })
    expect(code).toBe(0)
    expect(report.checks.filter(({ name }) => name === 'localai').map(({ level, found }) => `${level} ${found.split(':')[0]}`)).toEqual([
      'ok LOCALAI_NODE_LABELS is read as --labels',
      'warn LOCALAI_P2P is not supported',
      'ok LOCALAI_REGISTRATION_TOKEN is read as --join-token and --token',
      'ok LOCALAI_UPLOAD_LIMIT has no effect',
    ])
    expect(JSON.stringify(report)).not.toContain(token)
  })

  it('finds nothing wrong with a machine on which nothing was started yet', async () => {
    const { code, report, check } = await doctor()
    expect(report.checks.filter(({ level }) => level === 'fail')).toEqual([])
    expect(code).toBe(0)
    expect(check('controller')).toMatchObject({ level: 'warn' })
    expect(check('database')?.found).toContain('not created yet')
  })

  it('asks the controller, and tries the key', async () => {
    scriptHealthy()
    await writeFile(join(dataDir.path, 'endpoint'), controller.url)
    await writeFile(join(dataDir.path, 'admin.key'), 'k')
    const { code, report } = await doctor()
    expect(report.checks.filter(({ level }) => level !== 'ok')).toEqual([])
    expect({ code, ok: report.ok }).toEqual({ code: 0, ok: true })
  })

  it('reports each problem, does not stop at the first, and ends with 1', async () => {
    await chmod(dataDir.path, 0o755)
    await writeFile(join(dataDir.path, 'muster.yaml'), 'prot: 9000\n')
    const nobody = await freePort()
    const { code, report, check } = await doctor(['--url', `http://127.0.0.1:${nobody}`], {
      MUSTER_NATS_URL: `nats://127.0.0.1:${nobody}`,
      MUSTER_ADMIN_KEY: 'k',
    })
    expect(check('settings')?.found).toMatch(/muster.yaml:1: unknown key "prot"; the closest known key is port/)
    expect(check('data dir')?.level).toBe('warn')
    expect(check('controller')?.level).toBe('fail')
    expect({ code, ok: report.ok }).toEqual({ code: 1, ok: false })
  })

  it('does not take its own try of the port for a controller that hangs up', async () => {
    const port = String(await freePort())
    await writeFile(join(dataDir.path, 'endpoint'), `http://127.0.0.1:${port}`)
    for (let round = 0; round < 3; round += 1)
      expect((await doctor(['--port', port])).check('controller')).toMatchObject({
        level: 'warn',
        found: expect.stringContaining('no controller runs at') as string,
      })
  })

  it('takes a file with keys of every command', async () => {
    await writeFile(join(dataDir.path, 'muster.yaml'), 'log-level: warn\nworkers: 2\nlabels: { rack: b2 }\nnode-timeout: 20s\n')
    expect((await doctor()).check('settings')).toMatchObject({ level: 'ok' })
  })

  it('SEC7 warns of a NATS on which nodes have no credentials of their own', async () => {
    const nats = await processes.start('nats-server', { args: ['-a', '127.0.0.1', '-p', '-1'] })
    const [, port] = await nats.waitForOutput(/Listening for client connections on 127\.0\.0\.1:(\d+)/)
    const { check } = await doctor(['--nats-url', `nats://127.0.0.1:${port}`], { MUSTER_WORKER_NATS_URL: 'nats://nats.example:4222' })
    expect(check('bus')).toMatchObject({ level: 'warn', advice: expect.stringContaining('muster nats-config') as string })
    await nats.stop()
  })

  it('looks at a NATS and a PostgreSQL itself while no controller runs, and shows no password', async () => {
    const nats = await processes.start('nats-server', { args: ['-a', '127.0.0.1', '-p', '-1'] })
    const [, port] = await nats.waitForOutput(/Listening for client connections on 127\.0\.0\.1:(\d+)/)
    const { check, report } = await doctor(['--nats-url', `nats://user:canary@127.0.0.1:${port}`], {
      MUSTER_DATABASE_URL: `postgres://user:canary@127.0.0.1:${port}/muster`,
    })
    expect(check('bus')).toMatchObject({ level: 'ok', found: expect.stringContaining('nats-server 2.') as string })
    expect(check('database')).toMatchObject({ level: 'fail', found: expect.stringContaining('is not PostgreSQL') as string })
    expect(JSON.stringify(report)).not.toContain('canary')
    await nats.stop()
  })

  it('does not report as fine what an unready controller does not report', async () => {
    scriptHealthy()
    controller.reply(systemRoutes.readyz, (_, response) => void response.writeHead(503).end('{"status":"unavailable"}'))
    controller.refuse(systemRoutes.status, 503, { code: 'database_unavailable', message: 'cannot reach the database' })
    await writeFile(join(dataDir.path, 'endpoint'), controller.url)
    const { code, check } = await doctor()
    for (const name of ['database', 'bus'])
      expect(check(name)).toMatchObject({
        level: 'fail',
        found: 'unknown: the controller is not ready (cannot reach the database)',
        advice: expect.stringContaining('log of the controller') as string,
      })
    expect(code).toBe(1)
  })

  it('detects that the embedded database of a data directory is missing, with the error of `muster up`', async () => {
    await mkdir(join(dataDir.path, 'postgres'))
    await writeFile(join(dataDir.path, 'postgres', 'location.json'), '{"id":"gonegonegone"}')
    expect((await doctor()).check('database')).toMatchObject({
      level: 'fail',
      found: expect.stringContaining('/gonegonegone, which is gone') as string,
      advice: expect.stringMatching(/bring that directory back.*or remove .*postgres to begin with an empty database/) as string,
    })
  })

  it('distinguishes a port of another program from one of a controller', async () => {
    const port = new URL(controller.url).port
    expect((await doctor(['--port', port])).check('port')?.level).toBe('fail')
    controller.answer(systemRoutes.version, { version })
    expect((await doctor(['--port', port])).check('port')?.level).toBe('ok')
  })

  it('checks the port of the last start, unless another one is given', async () => {
    controller.answer(systemRoutes.version, { version })
    await writeFile(join(dataDir.path, 'endpoint'), controller.url)
    const { host } = new URL(controller.url)
    expect((await doctorAt([])).check('port')?.found).toBe(`${host} is used by a Muster controller (${version})`)
    const other = await freePort()
    expect((await doctorAt([], { MUSTER_PORT: String(other) })).check('port')?.found).toBe(`127.0.0.1:${other} is free`)
  })

  it('does not hang on a server that accepts and sends nothing', async () => {
    controller.reply(systemRoutes.healthz, () => undefined)
    controller.reply(systemRoutes.readyz, () => undefined)
    controller.reply(systemRoutes.version, () => undefined)
    controller.reply(systemRoutes.status, () => undefined)
    const { check } = await doctor(['--url', controller.url])
    expect(check('controller')).toMatchObject({ level: 'fail', found: expect.stringContaining('did not answer within 4 s') as string })
  })
})
