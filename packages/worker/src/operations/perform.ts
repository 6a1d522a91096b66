// Carries out one order with the installer. What is there already is not fetched again, and nothing is
// called done that the installer, asked afterwards, does not have.
import { Digest, FleetError, unreachable } from '@muster/protocol'
import type { InstallContext, Installer, InstallOutcome, InstallRequest } from './installer.ts'
import type { Order, Outcome } from './order.ts'

type Success = Omit<Extract<Outcome, { state: 'succeeded' }>, 'state'>
type Means = Readonly<{ installer: Installer; context: InstallContext }>

export async function perform(order: Order, means: Means): Promise<Success> {
  switch (order.kind) {
    case 'delete':
      return await remove(order, means)
    case 'upgrade':
      return await upgrade(await asListed(order, means), means)
    case 'install':
      return await install(await asListed(order, means), means)
    default:
      return unreachable(order.kind)
  }
}

/** What it is about may have been installed under another of its names since it was accepted. */
async function asListed(order: Order, { installer }: Means): Promise<Order> {
  return { ...order, backend: (await installer.listedName(order.backend)) ?? order.backend }
}

export function requestOf({
  backend,
  kind,
  force,
  uri,
  mirrors,
  version,
  gallery_url: galleryUrl,
  digest,
  name,
  alias,
  strategy,
}: Order): InstallRequest {
  return {
    backend,
    mode: kind === 'upgrade' ? 'upgrade' : force === true ? 'reinstall' : 'install',
    ...(uri === undefined ? {} : { uri }),
    ...(mirrors === undefined ? {} : { mirrors }),
    ...(version === undefined ? {} : { version }),
    ...(galleryUrl === undefined ? {} : { galleryUrl }),
    ...(digest === undefined ? {} : { digest }),
    ...(name === undefined ? {} : { name }),
    ...(alias === undefined ? {} : { alias }),
    ...(strategy === undefined ? {} : { strategy }),
  }
}

async function install(order: Order, { installer, context }: Means): Promise<Success> {
  const { force = false, digest } = order
  context.onProgress({ phase: 'resolving' })
  if (!force && (await suffices(order, installer))) return await whatIsThere(order, installer)
  const outcome = await installer.install(requestOf(order), context)
  return await confirmed(order, installer, { ...outcome, wanted: digest ?? outcome.digest })
}

/** Any version will do, unless one was asked for; one that is named only by its URI has to be looked at. */
async function suffices({ backend, digest, exact = false }: Order, installer: Installer): Promise<boolean> {
  if (!exact) return await installer.isInstalled(backend)
  return digest !== undefined && (await installer.isInstalled(backend, digest))
}

async function upgrade(order: Order, { installer, context }: Means): Promise<Success> {
  const { backend, digest } = order
  context.onProgress({ phase: 'resolving' })
  const isCurrent = digest !== undefined && (await installer.isInstalled(backend, digest))
  // What was installed already, by a command that was cut short or by a rolling one, is still to be the only one that runs.
  if (isCurrent && order.strategy === 'recreate') await installer.stopOutdated(backend, context)
  if (isCurrent && (await installer.verify(backend, context)) === 'intact') return await whatIsThere(order, installer)
  const outcome = isCurrent ? await installer.repair(backend, context) : await installer.install(requestOf(order), context)
  return await confirmed(order, installer, { ...outcome, wanted: digest ?? outcome.digest })
}

async function remove(order: Order, { installer, context }: Means): Promise<Success> {
  context.onProgress({ phase: null })
  await installer.remove(order.backend, context)
  if (await installer.isInstalled(order.backend)) throw untrue(order, 'it is still there')
  return {}
}

async function confirmed(order: Order, installer: Installer, outcome: InstallOutcome & { wanted: Digest }): Promise<Success> {
  const { wanted, digest, version } = outcome
  if (!(await installer.isInstalled(order.backend, wanted))) throw untrue(order, `${wanted} is not what is there now`)
  return { digest, version: version.slice(0, 256) }
}

async function whatIsThere({ backend, digest: asked }: Order, installer: Installer): Promise<Success> {
  if (asked !== undefined) await installer.listAs(backend, asked)
  const found = (await installer.inventory()).find(({ name }) => name === backend)
  const digest = Digest.safeParse(found?.digest)
  return { ...(digest.success ? { digest: digest.data } : {}), ...(found === undefined ? {} : { version: found.version }) }
}

const untrue = ({ kind, backend }: Order, because: string): FleetError =>
  new FleetError({ code: 'integrity', retry: 'backoff', message: `the ${kind} of ${backend} came to its end, but ${because}` })
