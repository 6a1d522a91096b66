// Two controllers as processes on a real database and NATS, and the directory of a scripted backend to install.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { copyScriptedBackend, createProcesses, createTestDatabase, makeTempDir, startCluster, startNats } from '@muster/testkit'

export type ScriptedCluster = Awaited<ReturnType<typeof startScriptedCluster>>

export async function startScriptedCluster({ postgresUrl, args }: { postgresUrl: string; args: readonly string[] }) {
  await using ending = new AsyncDisposableStack()
  const { path: directory } = ending.use(await makeTempDir())
  const database = await createTestDatabase({ serverUrl: postgresUrl })
  ending.defer(() => database.drop())
  const nats = ending.use(await startNats())
  const processes = ending.use(createProcesses())
  const artifact = join(directory, 'scripted')
  await mkdir(artifact)
  await copyScriptedBackend(artifact, { version: '1.0.0' })
  const cluster = await startCluster({
    ...{ processes, directory, databaseUrl: database.url, natsUrl: nats.url, controllers: 2 },
    args: ['--auto-approve', '--heartbeat-interval', '500ms', '--node-timeout', '3s', ...args],
  })
  const [first, second] = cluster.controllers
  if (first === undefined || second === undefined) throw new Error('there are two controllers')
  const owned = ending.move()
  return { ...cluster, first, second, processes, nats, artifact, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
