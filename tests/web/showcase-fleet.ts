// A fleet with everything that a page can show: serving and pending nodes, backends, models that are ready, idle and
// broken, a failed and a running operation, with custom text wherever users can enter some.
import { createNodeCaller, joinToken, nodesOf, scriptedBackend, startHostileRegistry, waitFor, type ApiClient } from '@muster/testkit'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'
import { startSlowProxy } from '../serving/slow-proxy.ts'
import { backendImage, noise } from '../install/worker-world.ts'

export interface ShowcaseFleet extends Fleet {
  /** IDs of the first node, the failed operation and the running operation. */
  readonly node: string
  readonly failed: string
  readonly running: string
}
export interface ShowcaseOptions {
  readonly postgresUrl: string
  readonly workers: readonly string[]
  readonly pending: string
  /** Descriptions, and the last output of a crashing process. */
  readonly words: string
  readonly lastWords: string
  /** A URI without backend: its install fails and shows it. */
  readonly missing: string
}

export async function startShowcaseFleet({
  postgresUrl,
  workers,
  pending,
  words,
  lastWords,
  missing,
}: ShowcaseOptions): Promise<ShowcaseFleet> {
  await using ending = new AsyncDisposableStack()
  const registry = ending.use(await startHostileRegistry())
  const line = ending.use(await startSlowProxy(registry.host))
  registry.addImage('library/whisper', backendImage('2.1.0', [{ path: 'weights.bin', data: noise(24_000_000) }]), 'latest')
  const fleet = ending.use(
    await startFleet({
      ...{ postgresUrl, workers, needsApproval: true },
      gallery: [
        { name: 'whisper', version: '2.1.0', description: words, uri: `oci://${line.host}/library/whisper:latest` },
        { name: 'vision', description: words, uri: pathToFileURL(scriptedBackend).href, tags: ['vision'] },
      ],
    }),
  )
  const { api } = fleet
  await offerModels(fleet, words)
  await fleet.putModel('chat', { say: 'word ' }, { description: words, scheduling: { min_replicas: Math.min(2, workers.length) } })
  await fleet.putModel('team/idle', {}, { description: words })
  await fleet.putModel('broken', { crash_at_start: lastWords }, { scheduling: { min_replicas: 1 } })
  await fleet.until('chat', ({ replicas_ready: ready }) => ready >= Math.min(2, workers.length), 60_000)
  await fleet.until('broken', ({ failure }) => failure !== null, 60_000)
  const failed = await startOperation(api, '/api/backends/install', { uri: missing, name: 'missing' })
  await createNodeCaller(fleet.controllers[0]?.url ?? '').register({ name: pending, token: joinToken })
  line.speed(60_000)
  const running = await startOperation(api, '/api/backends/install', { backend: 'whisper' })
  await untilOperation(api, failed, (state) => state === 'failed')
  await waitFor(async () => Number((await api.get(`/api/operations/${running}`)).body['current_bytes']) > 0, {
    what: 'the long operation to move',
  })
  const node = (await nodesOf(api)).find(({ name }) => name === workers[0])?.id ?? ''
  const owned = ending.move()
  return { ...fleet, node, failed, running, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function startOperation(api: ApiClient, path: string, body: object): Promise<string> {
  const answer = await api.post(path, body)
  if (answer.status !== 202) throw new Error(`${path}: ${answer.status} ${answer.text}`)
  return String(answer.body['operation_id'])
}

async function untilOperation(api: ApiClient, id: string, is: (state: string) => boolean): Promise<void> {
  await waitFor(async () => is(String((await api.get(`/api/operations/${id}`)).body['state'])), {
    what: `operation ${id}`,
  })
}

async function offerModels({ api, directory }: Fleet, words: string): Promise<void> {
  const file = join(directory, 'models.json')
  await writeFile(file, JSON.stringify([{ name: 'offered', description: words, tags: ['chat'], config: { backend: 'scripted' } }]))
  const answer = await api.put('/api/galleries/models', { url: pathToFileURL(file).href, kind: 'model' })
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
}
