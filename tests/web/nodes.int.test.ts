// Nodes in the browser: joining, status, labels, drain and removal.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { NodeView } from '@muster/protocol'
import {
  createNodeCaller,
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startCluster,
  startNats,
  waitFor,
  type ApiClient,
  type Processes,
  type WorkerOptions,
} from '@muster/testkit'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { visitWeb, type WebVisitor } from './web-world.ts'

const ending = new AsyncDisposableStack()
let api: ApiClient
let processes: Processes
let directory: string
let startWorker: (worker: Omit<WorkerOptions, 'join'>) => Promise<{ kill(signal: 'SIGKILL'): void; output(): string }>
let visitor: WebVisitor
let page: Page

beforeAll(async () => {
  directory = ending.use(await makeTempDir('web-nodes')).path
  const nats = ending.use(await startNats())
  const database = await createTestDatabase({ serverUrl: inject('postgresUrl') })
  ending.defer(() => database.drop())
  processes = ending.use(createProcesses())
  const cluster = await startCluster({
    ...{ processes, directory, databaseUrl: database.url, natsUrl: nats.url, controllers: 1 },
    args: ['--heartbeat-interval', '500ms', '--node-timeout', '3s'],
  })
  const [controller] = cluster.controllers
  if (controller === undefined) throw new Error('a cluster has a controller')
  api = controller.api
  startWorker = (worker) =>
    cluster.startWorker({ ...worker, join: controller.url, args: ['--gateway-listen', '127.0.0.1:0', ...(worker.args ?? [])] })
  await startWorker({ name: 'one', token: joinToken, args: ['--labels', 'rack=b2'] })
  await approve('one')
  visitor = ending.use(await visitWeb({ api }, { path: '/nodes' }))
  page = visitor.page
})
afterAll(() => ending.disposeAsync())

async function idOf(name: string): Promise<string> {
  const node = await waitFor(async () => (await nodesOf(api)).find((each) => each.name === name) ?? null, { what: `node ${name}` })
  return node.id
}
async function approve(name: string): Promise<void> {
  await api.post(`/api/nodes/${await idOf(name)}/approve`)
  await waitFor(async () => (await nodesOf(api)).some((node) => node.name === name && node.status === 'healthy'), {
    ...{ what: `${name} to be healthy` },
  })
}
const rowOf = (name: string): Locator => page.getByRole('row', { name, exact: true })
const turns = (name: string, status: string): Promise<void> => rowOf(name).getByText(status, { exact: true }).waitFor({ timeout: 30_000 })

describe('nodes in the browser', () => {
  it('a pending node is approved by one click and turns healthy without a reload', async () => {
    await turns('one', 'healthy')
    await startWorker({ name: 'two', token: joinToken })
    await turns('two', 'pending')
    await page.getByText('two is waiting for approval.').waitFor()
    await rowOf('two').getByRole('button', { name: 'Approve two' }).click()
    await turns('two', 'healthy')
    await page.getByText('2 nodes, all healthy.').waitFor()
    expect(await page.getByRole('button', { name: /^Approve/ }).count()).toBe(0)
    expect(visitor.problems()).toEqual([])
  })

  it('drains after listing the effects, and resumes', async () => {
    await rowOf('two').getByRole('button', { name: 'Actions for two' }).click()
    await page.getByRole('button', { name: 'Drain…' }).click()
    const sheet = page.getByRole('dialog', { name: 'Drain two?' })
    await sheet.getByText('No replicas to move.').waitFor()
    expect((await nodesOf(api)).find(({ name }) => name === 'two')?.status).toBe('healthy')
    await sheet.getByRole('button', { name: 'Drain two' }).click()
    await turns('two', 'drained')
    expect(await sheet.count()).toBe(0)
    await rowOf('two').getByRole('button', { name: 'Actions for two' }).click()
    await page.getByRole('button', { name: 'Resume' }).click()
    await turns('two', 'healthy')
    expect(visitor.problems()).toEqual([])
  })

  it('keeps filters in the address: they survive a reload, and back removes them', async () => {
    await page.getByLabel('Label', { exact: true }).selectOption('rack=b2')
    await rowOf('two').waitFor({ state: 'detached' })
    await page.getByLabel('State').selectOption('healthy')
    await page.getByRole('searchbox').fill('on')
    await page.waitForURL(/q=on/)
    await page.reload()
    await rowOf('one').waitFor()
    expect(await rowOf('two').count()).toBe(0)
    expect(await page.getByRole('searchbox').inputValue()).toBe('on')
    expect(await page.getByLabel('Label', { exact: true }).inputValue()).toBe('rack=b2')
    await page.getByRole('searchbox').fill('nothing like it')
    await page.getByText('No nodes match these filters.').waitFor()
    await page.goBack()
    await rowOf('one').waitFor()
    await page.goBack()
    await rowOf('two').waitFor()
    await page.getByRole('link', { name: 'Agent' }).click()
    await page.getByRole('link', { name: 'Show all 2 nodes' }).click()
    await rowOf('two').waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('adds, changes and removes labels in place, and shows errors beside them', async () => {
    await rowOf('one').getByRole('link', { name: 'one' }).click()
    await page.getByRole('heading', { name: 'one', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Labels and budget' }).click()
    const labels = page.getByRole('list', { name: 'Labels' })
    const added = page.getByRole('form', { name: 'New label' })
    await added.getByLabel('New label').fill('node.name')
    await added.getByRole('button', { name: 'Add' }).click()
    await added.getByRole('alert').filter({ hasText: 'set by Muster' }).waitFor()
    await added.getByLabel('New label').fill('tier')
    await added.getByLabel('New value').fill('<b>fast</b>')
    await added.getByRole('button', { name: 'Add' }).click()
    const tier = labels.getByLabel('Value of tier')
    await tier.waitFor()
    expect(await tier.inputValue()).toBe('<b>fast</b>')
    await tier.fill('slow')
    await labels.getByRole('button', { name: 'Save tier' }).click()
    await waitFor(async () => (await labelsOf('one'))['tier'] === 'slow', { what: 'the label to be changed' })
    await labels.getByRole('button', { name: 'Remove tier' }).click()
    await tier.waitFor({ state: 'detached' })
    expect(await labelsOf('one')).toMatchObject({ rack: 'b2', 'node.name': 'one' })
    expect(await labels.getByText('automatic').count()).toBe(3)
    expect(visitor.problems()).toEqual([])
  })

  it('draws the last hour of a node and extends it without another request', async () => {
    await visitor.goto(`/nodes/${await idOf('one')}`)
    const charts = page.getByRole('region', { name: 'Resources over the last hour' })
    await charts.getByRole('img', { name: /^RAM: [\d.]+ of [\d.]+ GB/ }).waitFor()
    await charts.getByRole('img', { name: /^In flight: 0/ }).waitFor()
    const requested: string[] = []
    page.on('request', (request) => requested.push(new URL(request.url()).pathname))
    // The new label shows that an event of the node arrived.
    await api.patch(`/api/nodes/${await idOf('one')}/labels`, { seen: 'yes' })
    await page.getByRole('link', { name: 'Labels and budget' }).click()
    await page.getByLabel('Value of seen').waitFor()
    expect(requested.filter((path) => path.endsWith('/history'))).toEqual([])
    expect(visitor.problems()).toEqual([])
  })

  it('shows a name with HTML as text everywhere', async () => {
    const hostile = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'
    const registered = await createNodeCaller(api.url).register({
      name: hostile,
      token: joinToken,
      labels: { html: '<img src=x onerror=window.ran=1>' },
    })
    const id = String(registered.body['id'])
    await visitor.goto('/nodes')
    await rowOf(hostile).waitFor()
    await visitor.goto(`/nodes/${id}?tab=details&act=remove`)
    await page.getByRole('heading', { name: `Remove ${hostile}?` }).waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('heading', { name: hostile, exact: true }).waitFor()
    await page.getByRole('link', { name: 'Labels and budget' }).click()
    await page.getByLabel('Value of html').waitFor()
    expect(await page.evaluate('window.ran === undefined && document.querySelector("img") === null')).toBe(true)
    await page.getByRole('button', { name: 'Remove…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).last().click()
    await page.getByRole('heading', { name: 'Nodes', exact: true }).waitFor()
    await rowOf(hostile).waitFor({ state: 'detached' })
    expect((await nodesOf(api)).some((node) => node.id === id)).toBe(false)
    expect(visitor.problems()).toEqual([])
  })

  it('shows a command with which a machine joins, and approves it', async () => {
    await page.getByRole('button', { name: 'Add node' }).click()
    const sheet = page.getByRole('dialog', { name: 'Add node' })
    const command = (await sheet.getByLabel('command', { exact: true }).textContent()) ?? ''
    expect(command).toMatch(/^muster worker --join http:\/\/127\.0\.0\.1:\d+ --token muster_join_\S+$/)
    const [, ...args] = command.split(' ')
    const own = ['--name', 'three', '--data-dir', join(directory, 'worker-three'), '--gateway-listen', '127.0.0.1:0']
    await processes.muster([...args, ...own])
    await sheet.getByRole('button', { name: 'Approve three' }).click({ timeout: 30_000 })
    await sheet.getByText('healthy', { exact: true }).waitFor({ timeout: 30_000 })
    await page.keyboard.press('Escape')
    await turns('three', 'healthy')
    expect(page.url()).not.toContain('add=')
    expect(visitor.problems()).toEqual([])
  })

  it('shows a killed worker as unhealthy, with the time since its last heartbeat', async () => {
    const four = await startWorker({ name: 'four', token: joinToken })
    await approve('four')
    await turns('four', 'healthy')
    four.kill('SIGKILL')
    await turns('four', 'unhealthy')
    await rowOf('four')
      .getByText(/^no heartbeat for \d+s$/)
      .waitFor()
    await page.getByText(/four has sent no heartbeat for \d+s\./).waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('lists a machine that waits for approval on the overview, and approves it by one click', async () => {
    await startWorker({ name: 'late', token: joinToken })
    await visitor.goto('/')
    const item = page.getByText('late is waiting for approval.')
    await item.waitFor()
    await page.getByRole('button', { name: 'Approve late' }).click()
    await item.waitFor({ state: 'hidden' })
    await waitFor(async () => (await nodesOf(api)).find(({ name }) => name === 'late')?.status === 'healthy', {
      what: 'late to be approved',
    })
    expect(visitor.problems()).toEqual([])
  })
})

async function labelsOf(name: string): Promise<Record<string, unknown>> {
  return (await api.get(`/api/nodes/${await idOf(name)}/labels`)).body['labels'] as unknown as Record<string, unknown>
}

it('the GPUs of a node are shown with their memory and the processes that use it', async () => {
  const bin = join(directory, 'bin')
  await mkdir(bin)
  const cards = '0, 24576, 1024, 23552, 550.1, GPU-a, NVIDIA L4\\n1, 24576, 4096, 20480, 550.1, GPU-b, NVIDIA L4\\n'
  const script = `#!/bin/sh\ncase "$1" in *compute-apps*) printf 'GPU-b, 999999, 4096, trainer\\n';; *) printf '${cards}';; esac\n`
  await writeFile(join(bin, 'nvidia-smi'), script, { mode: 0o755 })
  await startWorker({ name: 'gpu', token: joinToken, env: { PATH: `${bin}:${process.env['PATH'] ?? ''}` } })
  await approve('gpu')
  const id = await idOf('gpu')
  const node = await waitFor(
    async () => {
      const { body } = await api.get(`/api/nodes/${id}`)
      return NodeView.parse(body).resources.gpus?.length === 2 ? body : null
    },
    { what: 'the GPUs of the node' },
  )
  expect(node).toMatchObject({
    resources: {
      gpus: [
        { index: 0, uuid: 'GPU-a', processes: [] },
        { index: 1, processes: [{ pid: 999_999, name: 'trainer' }] },
      ],
    },
  })
  await visitor.goto(`/nodes/${id}`)
  const row = page.getByRole('table', { name: 'GPUs' }).getByRole('row', { name: 'GPU 1' })
  await row.getByText('21.5 GB free of 25.8 GB').waitFor()
  await row.getByText('4.3 GB trainer (PID 999999)').waitFor()
  expect(visitor.problems()).toEqual([])
})
