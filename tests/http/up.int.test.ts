// Runs `muster up` as a newcomer does: with nothing but a data directory, also a private one, as root, and after a crash.
import { access, chmod, chown, constants, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createApiClient,
  createNodeCaller,
  createProcesses,
  freePort,
  makeTempDir,
  nodesOf,
  openBrowser,
  waitFor,
  type Processes,
  type StartedProcess,
  type TempDir,
} from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const processes: Processes = createProcesses()
const isRoot = process.getuid?.() === 0
let directory: TempDir
const dataDirs: string[] = []

beforeAll(async () => {
  directory = await makeTempDir('up')
  await chmod(directory.path, 0o700)
})
afterAll(async () => {
  await processes.stopAll()
  for (const dataDir of dataDirs.splice(0)) await removeServerFiles(dataDir)
  await directory.remove()
})

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
  await started.waitForOutput(/login\?token=/)
  return { process: started, url: `http://127.0.0.1:${port}`, dataDir }
}
const cli = async (args: readonly string[], dataDir: string): Promise<{ code: number | null; output: string; stdout: string }> => {
  const run = await processes.muster([...args, '--data-dir', dataDir])
  const { code } = await run.exited
  return { code, output: run.output(), stdout: run.stdout() }
}
const keyIn = async (dataDir: string): Promise<string> => (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
const untilHealthy = async ({ url, dataDir }: Pick<Up, 'url' | 'dataDir'>, count = 1): Promise<void> => {
  const api = createApiClient(url, await keyIn(dataDir))
  const healthy = async (): Promise<number> => (await nodesOf(api)).filter((node) => node.status === 'healthy').length
  await waitFor(async () => (await healthy()) === count, { what: `${count} healthy nodes` })
}

describe('muster up', () => {
  let shared: Up
  beforeAll(async () => {
    shared = await up({ args: ['--workers', '2'] })
    await untilHealthy(shared, 2)
  })

  it('brings everything up below a private directory; the printed curl works', async () => {
    expect((await createApiClient(shared.url).get('/readyz')).status).toBe(200)
    const listed = await cli(['nodes', 'ls'], shared.dataDir)
    expect(listed).toMatchObject({ code: 0, stdout: expect.stringMatching(/healthy/) as string })
    expect((await stat(shared.dataDir)).mode & 0o777).toBe(0o700)
    expect((await stat(join(shared.dataDir, 'admin.key'))).mode & 0o777).toBe(0o600)

    const curl = /^\s*Try\s+(curl .*)$/m.exec(shared.process.stdout())?.[1] ?? ''
    const shell = await processes.start('sh', { args: ['-c', curl.replace(/^curl/, 'curl -sS --fail')] })
    expect(await shell.exited, shell.output()).toMatchObject({ code: 0 })
    expect(JSON.parse(shell.stdout())).toMatchObject({
      model: 'tiny',
      choices: [{ message: { content: expect.stringMatching(/\w/) as string } }],
    })
    const again = new RegExp(`muster up .*--data-dir ${shared.dataDir}.* --host 0.0.0.0 --nats-url nats://HOST:4222`)
    expect(shared.process.stdout()).toMatch(again)
  })

  it('refuses a data directory in use, naming the process that holds it, and leaves that one alone', async () => {
    const other = await processes.muster(['up', '--port', '0', '--data-dir', shared.dataDir])
    expect(await other.exited).toMatchObject({ code: 1 })
    expect(other.output()).toContain(String(shared.process.pid))
    expect((await createApiClient(shared.url).get('/readyz')).status).toBe(200)
  })

  it('refuses a port in use with one sentence', async () => {
    const other = await processes.muster(['up', '--port', new URL(shared.url).port, '--data-dir', join(directory.path, 'other')])
    dataDirs.push(join(directory.path, 'other'))
    expect(await other.exited).toMatchObject({ code: 1 })
    expect(other.output()).toMatch(/port \d+ .* is in use/)
    expect(other.output()).not.toMatch(/\n\s+at /)
  })

  it('refuses an empty join token before anything starts', async () => {
    const empty = await processes.muster(['up', '--port', '0', '--data-dir', join(directory.path, 'empty')], {
      env: { MUSTER_JOIN_TOKEN: '' },
    })
    expect(await empty.exited).toMatchObject({ code: 2 })
    expect(empty.output()).toMatch(/--join-token.*empty/)
  })

  it('refuses a foreign worker while the bus is in-process, and names the command to run', async () => {
    const token = (await readFile(join(shared.dataDir, 'join.token'), 'utf8')).trim()
    expect(await createNodeCaller(shared.url).register({ token })).toMatchObject({
      status: 409,
      body: { error: { code: 'bus_is_local' } },
    })
    const args = ['--join', shared.url, '--token', token, '--data-dir', join(directory.path, 'foreign')]
    const foreign = await processes.muster(['worker', ...args])
    expect(await foreign.exited).toMatchObject({ code: 1 })
    expect(foreign.output()).toMatch(/--nats-url/)
  })

  it('shows its nodes live in a browser that follows the login link', async () => {
    const link = /http:\S+\/login\?token=\S+/.exec(shared.process.stdout())?.[0] ?? ''
    await using browser = await openBrowser()
    const page = await browser.newPage()
    await page.goto(link)
    await page.getByText('live', { exact: true }).waitFor()
    expect(page.url()).toBe(`${shared.url}/`)
    await page.getByRole('link', { name: /^Nodes/ }).click()
    const rows = page.getByRole('table', { name: 'Nodes' })
    await rows.getByText('healthy', { exact: true }).first().waitFor()
    const api = createApiClient(shared.url, await keyIn(shared.dataDir))
    const [node] = await nodesOf(api)
    await api.post(`/api/nodes/${node?.id}/drain`)
    await rows.getByText('draining', { exact: true }).waitFor()
    await api.post(`/api/nodes/${node?.id}/resume`)
    const stranger = await browser.newPage()
    await stranger.goto(shared.url)
    await stranger.getByText('muster login-link').first().waitFor()
  })

  it('stops cleanly: the goodbye is stored, and no process remains', async () => {
    // A loaded model would be missed, and reported, when its worker leaves first.
    expect(await cli(['models', 'unload', 'tiny', '--wait'], shared.dataDir)).toMatchObject({ code: 0 })
    const exit = await shared.process.stop()
    expect(exit).toMatchObject({ code: 0 })
    expect(shared.process.stderr()).not.toMatch(/WARN|ERROR/)
    const left = await processes.start('pgrep', { args: ['-f', shared.dataDir] })
    await left.exited
    expect(left.stdout()).toBe('')
  })

  it('SEC1 keeps secrets in its own files only: hashes in the database, nothing in the log', async () => {
    const [key, token] = [await keyIn(shared.dataDir), (await readFile(join(shared.dataDir, 'join.token'), 'utf8')).trim()]
    expect(shared.process.stderr()).not.toContain(key)
    expect(shared.process.stderr()).not.toContain(token)
    const home = await serverFiles(shared.dataDir)
    const roots = [shared.dataDir, ...(home === null ? [] : [home])]
    const grep = await processes.start('grep', { args: ['-rlaF', '-e', key, '-e', token, ...roots] })
    await grep.exited
    expect(grep.stdout().trim().split('\n').toSorted()).toEqual([join(shared.dataDir, 'admin.key'), join(shared.dataDir, 'join.token')])
  })

  it('returns after kill -9 with the same nodes, the same key and the same database', async () => {
    const first = await up({ dataDir: shared.dataDir, args: ['--workers', '2'] })
    await untilHealthy(first, 2)
    const before = await nodesOf(createApiClient(first.url, await keyIn(first.dataDir)))
    first.process.kill('SIGKILL')
    await first.process.exited
    shared = await up({ dataDir: shared.dataDir, args: ['--workers', '2'] })
    await untilHealthy(shared, 2)
    expect((await nodesOf(createApiClient(shared.url, await keyIn(shared.dataDir)))).map((node) => node.id)).toEqual(
      before.map((node) => node.id),
    )
    expect(shared.process.stdout()).not.toMatch(/shown once; kept/)
  })

  it.runIf(isRoot)('runs as an ordinary user too', async (test) => {
    const canRead = await processes.start('runuser', {
      args: ['-u', 'nobody', '--', 'test', '-r', join(import.meta.dirname, '../../packages/cli/src/main.ts')],
    })
    if ((await canRead.exited).code !== 0) return test.skip('the user nobody cannot read this clone')
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
    await started.waitForOutput(/login\?token=/)
    await untilHealthy({ url: `http://127.0.0.1:${port}`, dataDir })
    expect((await stat(dataDir)).uid).toBe(uid)
    await access(join(dataDir, 'postgres'), constants.F_OK)
    await started.stop()
    await home.remove()
  })
})

async function nobody(): Promise<{ uid: number; gid: number }> {
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((each) => each.startsWith('nobody:'))
  const [, , uid, gid] = line?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
