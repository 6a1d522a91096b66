// A fleet whose scripted backend comes from a real registry, in builds that a test publishes one after the other.
import { readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { copyScriptedBackend, createProcesses, startRegistry, waitFor, type Registry, type ScriptedHabits } from '@muster/testkit'
import { startFleet, type Fleet, type FleetOptions } from './fleet-world.ts'

export interface RollingWorld extends Fleet {
  readonly registry: Registry
  /** Publishes a version in the gallery; returns its digest. */
  publish(version: string, habits?: ScriptedHabits): Promise<string>
  /** Asks for it everywhere, and waits until it has ended. */
  upgrade(options?: object, timeoutMs?: number): Promise<SeenOperation>
  operation(id: string): Promise<SeenOperation>
  untilOperation(id: string, is: (operation: SeenOperation) => boolean, timeoutMs?: number): Promise<SeenOperation>
  /** Names of backends for which there is something newer, looked for now. */
  upgrades(): Promise<string[]>
  /** Where the processes of backends run. */
  trees(): Promise<string[]>
  /** Every manifest and blob that was fetched by its digest, in order. */
  fetched(): string[]
}
export type SeenOperation = Readonly<{
  id: string
  state: string
  message: string
  nodes: readonly Readonly<{
    node_name: string
    status: string
    message: string
    ring: number | null
    error: string | null
    error_code: string | null
  }>[]
}>

export async function startRollingWorld(options: FleetOptions): Promise<RollingWorld> {
  const ending = new AsyncDisposableStack()
  const registry = ending.use(await startRegistry())
  const processes = ending.use(createProcesses())
  const scriptedUri = `oci://${registry.host}/scripted:latest`
  const publishTo = async (directory: string, version: string, habits?: ScriptedHabits): Promise<string> => {
    const from = join(directory, `build-${version}`)
    await copyScriptedBackend(from, { version, ...(habits === undefined ? {} : { habits }) })
    const reference = `${registry.host}/scripted:latest`
    const pack = await processes.muster(['pack', from, '-t', reference, '--push', '--allow-source', registry.host, '-o', 'json'])
    if ((await pack.exited).code !== 0) throw new Error(pack.output())
    return (JSON.parse(pack.stdout()) as { digest: string }).digest
  }
  await publishTo(registry.storagePath, '1.0.0')
  const fleet = ending.use(await startFleet({ ...options, scriptedUri }))
  const { api } = fleet
  const operation = async (id: string): Promise<SeenOperation> => (await api.get(`/api/operations/${id}`)).body as unknown as SeenOperation
  const untilOperation: RollingWorld['untilOperation'] = async (id, is, timeoutMs = 90_000) => {
    let last: SeenOperation | null = null
    return await waitFor(
      async () => {
        last = await operation(id)
        return is(last) ? last : null
      },
      { what: `the operation ${id}`, timeoutMs },
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${JSON.stringify(last, null, 1)}`)
    })
  }
  return {
    ...fleet,
    registry,
    publish: (version, habits) => publishTo(fleet.directory, version, habits),
    operation,
    untilOperation,
    async upgrade(body = {}, timeoutMs = 90_000) {
      const { status, text, body: answer } = await api.post('/api/backends/scripted/upgrade', body)
      if (status !== 202) throw new Error(`${status} ${text}`)
      return await untilOperation(String(answer['operation_id']), ({ state }) => state !== 'running' && state !== 'background', timeoutMs)
    },
    async upgrades() {
      const { status, text, body } = await api.post('/api/backends/upgrades/check', {})
      if (status >= 300) throw new Error(`${status} ${text}`)
      return Object.keys(body['upgrades'] as unknown as object)
    },
    async trees() {
      const links = (await fleet.backendProcesses()).map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => ''))
      return (await Promise.all(links)).filter((path) => path !== '')
    },
    fetched: () =>
      [...registry.log().matchAll(/"GET \/v2\/scripted\/(?:blobs|manifests)\/(sha256:[0-9a-f]{64})/g)].map(([, digest = '']) => digest),
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
}
