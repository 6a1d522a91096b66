// The command that carries a wish to its worker, as the bus has it.
import { backendDelete, backendInstall, backendUpgrade, unreachable, type CommandReply, type NodeId } from '@muster/protocol'
import type { Bus } from '@muster/bus'
import type { IntentRecord } from '../store/intent-rows.ts'

export type CommandOptions = Readonly<{ isAsync: boolean; timeoutMs: number; signal: AbortSignal }>

/** What a worker is asked; rejects as the bus does. */
export async function sendCommand(bus: Bus, { intent, plan }: IntentRecord, options: CommandOptions): Promise<CommandReply> {
  const to = { node: intent.nodeId }
  const { timeoutMs, signal } = options
  const about = aboutOf({ intent }, options)
  switch (intent.kind) {
    case 'install':
      return await bus.request(
        backendInstall,
        to,
        { ...about, ...sourceOf(plan), ...(plan.exact ? { exact: true } : {}) },
        { timeoutMs, signal },
      )
    case 'upgrade': {
      const strategy = plan.strategy === null ? {} : { strategy: plan.strategy }
      return await bus.request(backendUpgrade, to, { ...about, ...sourceOf(plan), ...strategy }, { timeoutMs, signal })
    }
    case 'delete':
      return await bus.request(backendDelete, to, about, { timeoutMs, signal })
    default:
      return unreachable(intent.kind)
  }
}

/**
 * For workers that know no `backend.upgrade`: an install that overwrites. The one place where `force` is sent; with it
 * goes the last trace of the original's wire from the controller.
 */
export async function sendForcedInstall(bus: Bus, { intent, plan }: IntentRecord, options: CommandOptions): Promise<CommandReply> {
  const { timeoutMs, signal } = options
  const to: { node: NodeId } = { node: intent.nodeId }
  return await bus.request(backendInstall, to, { ...aboutOf({ intent }, options), ...sourceOf(plan), force: true }, { timeoutMs, signal })
}

function aboutOf({ intent }: Pick<IntentRecord, 'intent'>, { isAsync }: CommandOptions) {
  const { backend, opId, generation, epoch } = intent
  return { backend, op_id: opId, generation, epoch, ...(isAsync ? { async: true } : {}) }
}

function sourceOf({ uri, digest, name, alias, mirrors, version, galleryUrl }: IntentRecord['plan']) {
  return {
    ...(uri === null ? {} : { uri }),
    ...(digest === null ? {} : { digest }),
    ...(name === null ? {} : { name }),
    ...(alias === null ? {} : { alias }),
    ...(mirrors.length === 0 ? {} : { mirrors: [...mirrors] }),
    ...(version === '' ? {} : { version }),
    ...(galleryUrl === '' ? {} : { gallery_url: galleryUrl }),
  }
}
