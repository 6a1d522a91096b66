// A controller in this process, from its data directory to the moment it is ready, and back.
import { join } from 'node:path'
import { access } from 'node:fs/promises'
import type { LocalHub } from '@muster/bus'
import type { Controller, ControllerSettings } from '@muster/controller'
import { type Clock, type ExplainedSetting, type Log, openDataDir, type Secret, abortable } from '@muster/host'
import type { SecretLocation } from './ready-message.ts'

export interface ControllerStart {
  readonly settings: ControllerSettings
  readonly explained: readonly ExplainedSetting[]
  readonly dataDir: string
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly localHub?: LocalHub
  readonly ownWorkers?: () => ReadonlySet<string>
  /** Models of the built-in gallery that a new installation begins with. */
  readonly firstModels?: readonly string[]
}

export interface RunningController {
  readonly controller: Controller
  /** Absolute. */
  readonly dataDir: string
  readonly made: Awaited<Controller['made']>
}

/** What has to be undone is left on `stack`, also when it fails half way. */
export async function startControllerOn(
  stack: AsyncDisposableStack,
  { dataDir: path, signal, ...deps }: ControllerStart,
): Promise<RunningController> {
  const { checkSettings, startController } = await import('@muster/controller')
  checkSettings(deps.settings)
  const dataDir = stack.use(await openDataDir({ path, role: 'controller', clock: deps.clock, signal }))
  const controller = await startController({ ...deps, dataDir, signal })
  stack.defer(() => controller.stop())
  const made = await abortable(controller.made, signal)
  await controller.ready(signal)
  return { controller, dataDir: dataDir.root, made }
}

/** Where on this machine a secret of the cluster can be read: what was given counts before what an earlier start has left. */
export async function findSecret({
  name,
  given,
  file,
  env,
}: {
  name: string
  given: Secret | undefined
  file: string
  env: Readonly<Record<string, string | undefined>>
}): Promise<SecretLocation> {
  if (env[name] !== undefined) return { variable: name }
  const named = env[`${name}_FILE`]
  if (named !== undefined) return { file: named }
  if (given !== undefined) return null
  return access(file).then(
    () => ({ file }),
    () => null,
  )
}

export const secretFiles = (dataDir: string): { adminKey: string; joinToken: string } => ({
  adminKey: join(dataDir, 'admin.key'),
  joinToken: join(dataDir, 'join.token'),
})
