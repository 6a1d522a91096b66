// Clients that change models, cancel and retry operations, drain nodes, and switch galleries.
import { ask, noteRefusal, submitBackend, type ClientOptions, type Ledger } from './clients.ts'
import type { AcceptedModelOperation } from './observation.ts'

const fileContents = 4

/** One client alone changes models, so that it knows which exist. */
export async function changeModel(options: ClientOptions, ledger: Ledger, key: string): Promise<void> {
  const { world, random } = options
  const model = random.pick(world.models)
  const dice = random.next()
  if (!ledger.models.has(model) || dice < 0.25) return await putModel(options, ledger, model)
  if (dice < 0.6) return await submitModel(options, ledger, { kind: 'load', model, key })
  if (dice < 0.85) return await submitModel(options, ledger, { kind: 'unload', model, key })
  await submitModel(options, ledger, { kind: 'delete', model, key })
  ledger.models.delete(model)
}

/** A new model, or another file, backend or number of replicas. */
async function putModel(options: ClientOptions, ledger: Ledger, model: string): Promise<void> {
  const { world, random } = options
  const { backend } = random.pick(world.images)
  const replicas = 1 + random.below(2)
  const file = world.offers.file(random.below(fileContents))
  const body = {
    ...{ name: model, backend, files: [file], parameters: { model: file.filename } },
    scheduling: { min_replicas: random.below(replicas + 1), max_replicas: replicas },
  }
  const about = `put ${model} on ${backend} with ${file.sha256.slice(0, 8)}, ${replicas} replicas`
  const { answer } = await ask(options, { method: 'PUT', path: `/api/models/${model}`, body, about })
  noteRefusal(ledger, answer)
  if (answer.status < 300) ledger.models.add(model)
}

type ModelRequest = Readonly<{ kind: AcceptedModelOperation['kind']; model: string; key: string }>

async function submitModel(options: Omit<ClientOptions, 'everyMs'>, ledger: Ledger, { kind, model, key }: ModelRequest): Promise<void> {
  const path = `/api/models/${model}${kind === 'delete' ? '' : `/${kind}`}`
  const how = kind === 'delete' ? { method: 'DELETE' } : { method: 'POST', body: {} }
  const { answer, ...times } = await ask(options, { ...how, path, key, about: `${kind} ${model}` })
  if (answer.status === 202) ledger.modelOperations.push({ operation: String(answer.body['operation_id']), kind, model, ...times })
  else noteRefusal(ledger, answer)
}

/** Cancels what was submitted just now, retries anything, drains and resumes nodes, and changes galleries. */
export async function meddle(options: ClientOptions, ledger: Ledger, key: string): Promise<void> {
  const dice = options.random.next()
  if (dice < 0.4) {
    // Most operations end before anybody could cancel them.
    if (options.random.next() < 0.7) await submitBackend(options, ledger, `${key}-first`)
    await changeOperation(options, ledger, { kind: 'cancel', key })
  } else if (dice < 0.6) await changeOperation(options, ledger, { kind: 'retry', key })
  else if (dice < 0.8) await drainOrResume(options, ledger)
  else await changeGallery(options, ledger)
}

async function changeOperation(
  options: ClientOptions,
  ledger: Ledger,
  { kind, key }: { kind: 'cancel' | 'retry'; key: string },
): Promise<void> {
  const all = [...ledger.accepted, ...ledger.modelOperations].toSorted((a, b) => a.answeredAt - b.answeredAt)
  const chosen = kind === 'cancel' ? all.slice(-1 - options.random.below(2)) : await findFailed(options, all)
  if (chosen.length === 0) return
  const { operation } = options.random.pick(chosen)
  const path = `/api/operations/${operation}/${kind}`
  const { answer, ...times } = await ask(options, { method: 'POST', body: {}, path, key, about: `${kind} ${operation}` })
  if (answer.status === 202) ledger.changes.push({ operation, kind, ...times })
  else noteRefusal(ledger, answer)
}

/** Submissions that failed; now and then others, too, which are refused. */
async function findFailed<T extends { readonly operation: string }>(options: ClientOptions, all: readonly T[]): Promise<readonly T[]> {
  const { answer } = await ask(options, { path: '/api/operations?state=finished', about: 'list finished operations' })
  const listed = answer.body['operations'] as readonly { id: string; state: string }[] | undefined
  const failed = new Set(listed?.filter(({ state }) => state === 'failed').map(({ id }) => id))
  const found = all.filter(({ operation }) => failed.has(operation))
  return found.length > 0 ? found : all.slice(-1)
}

const mostDrained = 2

async function drainOrResume(options: ClientOptions, ledger: Ledger): Promise<void> {
  const { world, random } = options
  const isFull = ledger.drained.size >= Math.min(mostDrained, world.workers.length - 1)
  const [drained] = ledger.drained
  if (drained !== undefined && (isFull || random.next() < 0.5)) return await resume(options, ledger, drained)
  const { id, name } = random.pick(world.workers)
  await ask(options, { method: 'POST', body: {}, path: `/api/nodes/${id}/drain`, about: `drain ${name}` })
  ledger.drained.add(id)
}

async function resume(options: Omit<ClientOptions, 'everyMs'>, ledger: Ledger, id: string): Promise<void> {
  await ask(options, { method: 'POST', body: {}, path: `/api/nodes/${id}/resume`, about: `resume ${id}` })
  ledger.drained.delete(id)
}

const addedGallery = 'added'

async function changeGallery(options: ClientOptions, ledger: Ledger): Promise<void> {
  const { world, random } = options
  const path = `/api/galleries/${addedGallery}`
  const { version } = random.pick(world.images)
  const body = { url: world.offers.versionUrl(version), kind: 'backend' }
  const { answer } =
    random.next() < 0.3
      ? await ask(options, { method: 'DELETE', path, about: 'remove the added gallery' })
      : await ask(options, { method: 'PUT', path, body, about: `gallery of version ${version}` })
  noteRefusal(ledger, answer)
}

/** After the faults: every node takes work again, and every model is wanted. */
export async function restore(options: Omit<ClientOptions, 'everyMs'>, ledger: Ledger): Promise<void> {
  for (const { id } of options.world.workers) await resume(options, ledger, id)
  for (const model of ledger.models) await submitModel(options, ledger, { kind: 'load', model, key: `last-${model}` })
}
