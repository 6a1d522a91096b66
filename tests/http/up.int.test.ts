// `muster up`, as a newcomer runs it: nothing but a data directory, also a private one, also as root, also after a crash.
import { access, chmod, chown, constants, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  adminKey,
  createApiClient,
  createNodeCaller,
  createProcesses,
  freePort,
  joinToken,
  makeTempDir,
  nodesOf,
  openBrowser,
  waitFor,
  type Processes,
  type StartedProcess,
  type TempDir,
} from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'

const processes: Processes = createProcesses()
const isRoot = process.getuid?.() === 0
let directory: TempDir
const dataDirs: string[] = []

beforeEach(async () => {
  directory = await makeTempDir('up')
  await chmod(directory.path, 0o700)
})
afterEach(async () => {
  await processes.stopAll()
  for (const dataDir of dataDirs.splice(0)) await removeServerFiles(dataDir)
  await directory.remove()
})
afterAll(() => processes.stopAll())

/** As root the database's files are elsewhere, since its server can't be root. */
async function serverFiles(dataDir: string): Promise<string | null> {
  const location = await readFile(join(dataDir, 'postgres', 'location.json'), 'utf8').catch(() => null)
  return location === null ? null : join('/var/lib/muster-postgres', (JSON.parse(location) as { id: string }).id)
}
async function removeServerFiles(dataDir: string): Promise<void> {
  const home = await serverFiles(dataDir)
  if (home !== null) await rm(home, { recursive: true, force: true })
}

interface Up {
  readonly process: StartedProcess
  readonly url: string
  readonly dataDir: string
}

async function up(options: { dataDir?: string; args?: readonly string[]; env?: Record<string, string> } = {}): Promise<Up> {
  const dataDir = options.dataDir ?? join(directory.path, 'data')
  dataDirs.push(dataDir)
  const port = await freePort()
  const started = await processes.muster(['up', '--port', String(port), '--data-dir', dataDir, ...(options.args ?? [])], {
    env: options.env ?? {},
    stopTimeoutMs: 15_000,
  })
  await started.waitForOutput(/login\?token=/, 30_000)
  return { process: started, url: `http://127.0.0.1:${port}`, dataDir }
}
const cli = async (args: readonly string[], dataDir: string): Promise<{ code: number | null; output: string; stdout: string }> => {
  const run = await processes.muster([...args, '--data-dir', dataDir])
  const { code } = await run.exited
  return { code, output: run.output(), stdout: run.stdout() }
}
const keyIn = async (dataDir: string): Promise<string> => (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
const untilHealthy = async ({ url, dataDir }: Pick<Up, 'url' | 'dataDir'>): Promise<void> => {
  const api = createApiClient(url, await keyIn(dataDir))
  await waitFor(async () => (await nodesOf(api)).some((node) => node.status === 'healthy'), { what: 'a healthy node' })
}

describe('muster up', () => {
  it('brings everything up below a private directory; what it prints works as it is', async () => {
    const started = await up()
    await untilHealthy(started)
    expect((await createApiClient(started.url).get('/readyz')).status).toBe(200)
    const listed = await cli(['nodes', 'ls'], started.dataDir)
    expect(listed).toMatchObject({ code: 0, stdout: expect.stringMatching(/healthy/) as string })
    expect((await stat(started.dataDir)).mode & 0o777).toBe(0o700)
    expect((await stat(join(started.dataDir, 'admin.key'))).mode & 0o777).toBe(0o600)

    const curl = /^\s*Try\s+(curl .*)$/m.exec(started.process.stdout())?.[1] ?? ''
    const shell = await processes.start('sh', { args: ['-c', curl.replace(/^curl/, 'curl -sS --fail')] })
    expect(await shell.exited, shell.output()).toMatchObject({ code: 0 })
    expect(JSON.parse(shell.stdout())).toMatchObject({
      model: 'tiny',
      choices: [{ message: { content: expect.stringMatching(/\w/) as string } }],
    })
    const again = `muster up --port ${new URL(started.url).port} --data-dir ${started.dataDir} --host 0.0.0.0 --nats-url nats://HOST:4222`
    expect(started.process.stdout()).toContain(again)
  }, 60_000)

  it('SEC1 keeps no secret but its own files: only hashes in the database, nothing in the log', async () => {
    const started = await up()
    const [key, token] = [await keyIn(started.dataDir), (await readFile(join(started.dataDir, 'join.token'), 'utf8')).trim()]
    expect(started.process.stderr()).not.toContain(key)
    expect(started.process.stderr()).not.toContain(token)
    await started.process.stop()
    const home = await serverFiles(started.dataDir)
    const roots = [started.dataDir, ...(home === null ? [] : [home])]
    const grep = await processes.start('grep', { args: ['-rlaF', '-e', key, '-e', token, ...roots] })
    await grep.exited
    expect(grep.stdout().trim().split('\n').toSorted()).toEqual([join(started.dataDir, 'admin.key'), join(started.dataDir, 'join.token')])

    const empty = await processes.muster(['up', '--port', '0', '--data-dir', join(directory.path, 'other')], {
      env: { MUSTER_JOIN_TOKEN: '' },
    })
    expect(await empty.exited).toMatchObject({ code: 2 })
    expect(empty.output()).toMatch(/--join-token.*empty/)
  }, 60_000)

  it('is there again after kill -9, with the same node and the same key, on the same database', async () => {
    const first = await up()
    await untilHealthy(first)
    const before = await nodesOf(createApiClient(first.url, await keyIn(first.dataDir)))
    first.process.kill('SIGKILL')
    await first.process.exited
    const second = await up({ dataDir: first.dataDir })
    await untilHealthy(second)
    expect((await nodesOf(createApiClient(second.url, await keyIn(second.dataDir)))).map((node) => node.id)).toEqual(
      before.map((node) => node.id),
    )
    expect(second.process.stdout()).not.toMatch(/shown once; kept/)
  }, 60_000)

  it('refuses a data directory in use, naming the process that holds it, and leaves that one alone', async () => {
    const started = await up()
    const other = await processes.muster(['up', '--port', '0', '--data-dir', started.dataDir])
    expect(await other.exited).toMatchObject({ code: 1 })
    expect(other.output()).toContain(String(started.process.pid))
    expect((await createApiClient(started.url).get('/readyz')).status).toBe(200)
  }, 60_000)

  it('refuses a port in use with one sentence', async () => {
    const started = await up()
    const other = await processes.muster(['up', '--port', new URL(started.url).port, '--data-dir', join(directory.path, 'other')])
    dataDirs.push(join(directory.path, 'other'))
    expect(await other.exited).toMatchObject({ code: 1 })
    expect(other.output()).toMatch(/port \d+ .* is in use/)
    expect(other.output()).not.toMatch(/\n\s+at /)
  }, 60_000)

  it('lets in no foreign worker while its bus is its own, and says what to run', async () => {
    const started = await up({ args: ['--workers', '2'], env: { MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken } })
    const api = createApiClient(started.url, adminKey)
    await waitFor(async () => (await nodesOf(api)).filter((node) => node.status === 'healthy').length === 2, { what: 'both workers' })
    expect(await createNodeCaller(started.url).register({ token: joinToken })).toMatchObject({
      status: 409,
      body: { error: { code: 'bus_is_local' } },
    })
    const foreign = await processes.muster([
      'worker',
      '--join',
      started.url,
      '--token',
      joinToken,
      '--data-dir',
      join(directory.path, 'foreign'),
    ])
    expect(await foreign.exited).toMatchObject({ code: 1 })
    expect(foreign.output()).toMatch(/--nats-url/)
  }, 60_000)

  it('ends in good order: the goodbye is written, and nothing is left running', async () => {
    const started = await up()
    await untilHealthy(started)
    const exit = await started.process.stop()
    expect(exit).toMatchObject({ code: 0 })
    expect(started.process.stderr()).not.toMatch(/WARN|ERROR/)
    const left = await processes.start('pgrep', { args: ['-f', started.dataDir] })
    await left.exited
    expect(left.stdout()).toBe('')
  }, 60_000)

  it('shows its nodes in a browser that came by the login link, live', async () => {
    const started = await up()
    await untilHealthy(started)
    const link = /http:\S+\/login\?token=\S+/.exec(started.process.stdout())?.[0] ?? ''
    await using browser = await openBrowser()
    const page = await browser.newPage()
    await page.goto(link)
    await page.getByText('live', { exact: true }).waitFor()
    expect(page.url()).toBe(`${started.url}/`)
    await page.getByRole('link', { name: /^Nodes/ }).click()
    const rows = page.getByRole('table', { name: 'Nodes' })
    await rows.getByText('healthy', { exact: true }).waitFor()
    const api = createApiClient(started.url, await keyIn(started.dataDir))
    const [node] = await nodesOf(api)
    await api.post(`/api/nodes/${node?.id}/drain`)
    await rows.getByText('draining', { exact: true }).waitFor()
    const stranger = await browser.newPage()
    await stranger.goto(started.url)
    await stranger.getByText('muster login-link').first().waitFor()
  }, 60_000)

  it.runIf(isRoot)(
    'runs as an ordinary user too',
    async (test) => {
      const canRead = await processes.start('runuser', {
        args: ['-u', 'nobody', '--', 'test', '-r', join(import.meta.dirname, '../../packages/cli/src/main.ts')],
      })
      if ((await canRead.exited).code !== 0) return test.skip('the user nobody can not read this clone')
      const home = await makeTempDir('nobody')
      const { uid, gid } = await nobody()
      await chown(home.path, uid, gid)
      const port = await freePort()
      const dataDir = join(home.path, 'data')
      const program = [
        process.execPath,
        join(import.meta.dirname, '../../packages/cli/src/main.ts'),
        'up',
        '--port',
        String(port),
        '--data-dir',
        dataDir,
      ]
      const started = await processes.start('runuser', {
        args: ['-u', 'nobody', '--', ...program],
        env: { HOME: home.path },
        stopTimeoutMs: 15_000,
      })
      await started.waitForOutput(/login\?token=/, 30_000)
      await untilHealthy({ url: `http://127.0.0.1:${port}`, dataDir })
      expect((await stat(dataDir)).uid).toBe(uid)
      await access(join(dataDir, 'postgres'), constants.F_OK)
      await started.stop()
      await home.remove()
    },
    60_000,
  )
})

async function nobody(): Promise<{ uid: number; gid: number }> {
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((each) => each.startsWith('nobody:'))
  const [, , uid, gid] = line?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
