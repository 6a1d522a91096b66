// Carries out an import against a controller, in this order: galleries, backends, models with their files and scheduling, rules of
// models that exist already, nodes, keys. Every step is safe to repeat and compares first, so that a second run changes nothing.
import { type Clock, errorMessage, newId, sha256Hex } from '@muster/host'
import {
  backendRoutes,
  BackendName,
  galleryRoutes,
  keyRoutes,
  LabelPatch,
  ModelName,
  modelRoutes,
  nodeRoutes,
  type NodeView,
  type Scope,
} from '@muster/protocol'
import { isDeepStrictEqual } from 'node:util'
import type { ApiClient } from '../client/api-client.ts'
import type { Screen } from '../output/terminal.ts'
import { importModels } from './import-models.ts'
import { toScheduling } from './scheduling.pure.ts'
import type { Loss, Site, SiteNode } from './site.ts'

export interface ImportDeps {
  readonly api: ApiClient
  readonly clock: Clock
  readonly screen: Screen | null
  /** The step in progress, for people; null clears it. */
  readonly showStatus: (text: string | null) => void
  readonly signal: AbortSignal
  readonly isDryRun: boolean
  readonly mayReplace: boolean
  readonly files: 'upload' | 'reference'
  readonly backends: 'install' | 'on-demand'
  /** The scope of imported keys; null: none are imported. */
  readonly keyScope: Extract<Scope, 'inference' | 'admin'> | null
}

export interface Item {
  readonly kind: 'gallery' | 'backend' | 'model' | 'scheduling' | 'node' | 'key'
  readonly name: string
  /** `kept`: it exists in another form, and stays. `refused`: it cannot be imported. `failed`: try again. */
  readonly outcome: 'created' | 'changed' | 'unchanged' | 'kept' | 'refused' | 'failed'
  readonly message: string
}

export interface ImportReport {
  readonly source: string
  readonly dry_run: boolean
  readonly items: readonly Item[]
  readonly losses: readonly Loss[]
}

type Result = Pick<Item, 'outcome' | 'message'>

export async function importSite(site: Site, deps: ImportDeps): Promise<ImportReport> {
  const galleries = await importGalleries(site, deps)
  const backends = await importBackends(site, deps)
  const models = await importModels(site, deps)
  const rules = await importRules(site, models.names, deps)
  const nodes = await importNodes(site, deps)
  const keys = await importKeys(site, deps)
  return {
    source: site.from,
    dry_run: deps.isDryRun,
    items: [...galleries, ...backends.items, ...models.items, ...rules.items, ...nodes.items, ...keys],
    losses: [...site.losses, ...backends.losses, ...models.losses, ...rules.losses, ...nodes.losses],
  }
}

/** One failure concerns one item. */
async function attempt(step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    return { outcome: 'failed', message: errorMessage(error) }
  }
}

async function importGalleries(site: Site, { api, isDryRun, mayReplace }: ImportDeps): Promise<Item[]> {
  const stored = (await api.call(galleryRoutes.list)).body.galleries
  const items: Item[] = []
  for (const { name, url, kind } of site.galleries) {
    const sameUrl = stored.find((gallery) => gallery.url === url && gallery.kind === kind)
    const sameName = stored.find((gallery) => gallery.name === name)
    const result = await attempt(async () => {
      if (sameUrl !== undefined) return { outcome: 'unchanged', message: sameUrl.name === name ? '' : `it is there as ${sameUrl.name}` }
      if (sameName !== undefined && !mayReplace) return { outcome: 'kept', message: `${name} names another URL; --replace changes it` }
      const body = galleryRoutes.put.body?.safeParse({ url, kind })
      if (body?.success !== true) return { outcome: 'refused', message: body?.error.issues[0]?.message ?? 'it is not a gallery' }
      const outcome = sameName === undefined ? 'created' : 'changed'
      if (isDryRun) return { outcome, message: '' }
      const { body: view } = await api.call(galleryRoutes.put, { params: { name }, body: body.data })
      return { outcome, message: view.problem === null || view.problem === undefined ? '' : `it cannot be read now: ${view.problem}` }
    })
    items.push({ kind: 'gallery', name, ...result })
  }
  return items
}

/** A load installs a missing backend, so by default only its name is checked. */
async function importBackends(site: Site, { api, backends, isDryRun }: ImportDeps): Promise<{ items: Item[]; losses: Loss[] }> {
  if (site.backends.length === 0) return { items: [], losses: [] }
  const installed = new Set((await api.call(backendRoutes.list)).body.backends.map(({ name }) => name.toLowerCase()))
  const offered = new Set((await api.call(backendRoutes.gallery)).body.backends.map(({ name }) => name.toLowerCase()))
  const items: Item[] = []
  const losses: Loss[] = []
  for (const name of site.backends) {
    const isKnown = offered.has(name.toLowerCase()) || installed.has(name.toLowerCase())
    if (backends === 'on-demand') {
      if (!isKnown)
        losses.push({ about: name, key: '', message: 'no gallery offers this backend now; models that name it cannot be loaded' })
      continue
    }
    const result = await attempt(async () => {
      if (installed.has(name.toLowerCase())) return { outcome: 'unchanged', message: '' }
      const backend = BackendName.safeParse(name)
      if (!backend.success) return { outcome: 'refused', message: backend.error.issues[0]?.message ?? 'not valid' }
      if (!isDryRun) await api.call(backendRoutes.install, { body: { backend: backend.data }, idempotencyKey: newId() })
      return { outcome: 'created', message: isDryRun ? '' : 'the install runs; `muster ops ls` shows it' }
    })
    items.push({ kind: 'backend', name, ...result })
  }
  return { items, losses }
}

/** Rules of models that this site does not describe, such as models that were installed here before. */
async function importRules(site: Site, imported: ReadonlySet<string>, { api, isDryRun, mayReplace }: ImportDeps) {
  const items: Item[] = []
  const losses: Loss[] = []
  const others = site.rules.map(({ from, rule }) => ({ from, ...toScheduling(rule) })).filter(({ model }) => !imported.has(model))
  const stored = others.length === 0 ? [] : (await api.call(modelRoutes.list)).body.models
  for (const { from, model, scheduling, losses: lost } of others) {
    const found = stored.find(({ name }) => name === model)
    losses.push(...lost.map(({ key, message }) => ({ about: model, key: `scheduling.${key}`, message })))
    if (found === undefined) {
      losses.push({ about: from, key: model, message: 'there is no model of this name, so its rule has no effect' })
      continue
    }
    const result = await attempt(async () => {
      if (isDeepStrictEqual(found.config.scheduling, scheduling)) return { outcome: 'unchanged', message: '' }
      if (Object.keys(found.config.scheduling).length > 0 && !mayReplace)
        return { outcome: 'kept', message: 'the model has a scheduling; --replace changes it' }
      if (!isDryRun) await api.call(modelRoutes.scheduling, { params: { name: ModelName.parse(model) }, body: scheduling })
      return { outcome: 'changed', message: '' }
    })
    items.push({ kind: 'scheduling', name: model, ...result })
  }
  return { items, losses }
}

async function importNodes(site: Site, deps: ImportDeps): Promise<{ items: Item[]; losses: Loss[] }> {
  const wanted = site.nodes.filter(({ labels, vramBudget }) => Object.keys(ownLabels(labels)).length > 0 || vramBudget !== null)
  const stored = wanted.length === 0 ? [] : (await deps.api.call(nodeRoutes.list)).body.nodes
  const items: Item[] = []
  const losses: Loss[] = []
  for (const node of wanted) {
    const found = stored.filter(({ name }) => name === node.name)
    const [only] = found
    if (only === undefined || found.length > 1)
      losses.push({
        about: node.name,
        key: '',
        message:
          only === undefined
            ? 'this node has not joined: its labels and budget are taken over by another import after it has'
            : 'several nodes have this name',
      })
    else items.push({ kind: 'node', name: node.name, ...(await attempt(() => importNode(node, only, deps))) })
  }
  return { items, losses }
}

/** LocalAI's automatic labels begin with `node.`. */
const ownLabels = (labels: SiteNode['labels']): Record<string, string> =>
  Object.fromEntries(Object.entries(labels).filter(([key]) => !key.startsWith('node.') && !key.startsWith('gpu.')))

/** Adds what the node lacks; a label or a budget that it has stays. */
async function importNode(wanted: SiteNode, { id, labels, vram_budget: budget }: NodeView, { api, isDryRun }: ImportDeps): Promise<Result> {
  const missing = Object.fromEntries(Object.entries(ownLabels(wanted.labels)).filter(([key]) => labels[key] === undefined))
  const differing = Object.entries(ownLabels(wanted.labels)).filter(([key, value]) => labels[key] !== undefined && labels[key] !== value)
  const patch = LabelPatch.safeParse(missing)
  if (!patch.success) return { outcome: 'refused', message: `labels: ${patch.error.issues[0]?.message ?? 'not valid'}` }
  const newBudget = budget === null ? wanted.vramBudget : null
  const hasLabels = Object.keys(missing).length > 0
  if (!isDryRun && hasLabels) await api.call(nodeRoutes.patchLabels, { params: { id }, body: patch.data })
  if (!isDryRun && newBudget !== null) await api.call(nodeRoutes.putVramBudget, { params: { id }, body: { value: newBudget } })
  if (hasLabels || newBudget !== null)
    return { outcome: 'changed', message: [...Object.keys(missing), ...(newBudget === null ? [] : ['VRAM budget'])].join(', ') }
  const isOther = differing.length > 0 || (wanted.vramBudget !== null && wanted.vramBudget !== budget)
  return isOther ? { outcome: 'kept', message: 'it has other values here, which stay' } : { outcome: 'unchanged', message: '' }
}

/** Only hashes are sent. A controller answers 200 for a key that it has. */
async function importKeys(site: Site, { api, isDryRun, keyScope }: ImportDeps): Promise<Item[]> {
  const items: Item[] = []
  for (const [at, key] of site.keys.entries()) {
    const name = `localai-${at + 1}`
    const result = await attempt(async () => {
      if (keyScope === null) return { outcome: 'kept', message: 'not imported (--keys skip)' }
      if (isDryRun) return { outcome: 'created', message: `scope ${keyScope}; unchanged if it is there already` }
      const answer = await api.call(keyRoutes.create, { body: { name, scope: keyScope, secret_hash: sha256Hex(key.reveal()) } })
      const scope = answer.body.scope === keyScope ? '' : `it has the scope ${answer.body.scope}, which stays`
      return answer.status === 201 ? { outcome: 'created', message: `scope ${keyScope}` } : { outcome: 'unchanged', message: scope }
    })
    items.push({ kind: 'key', name, ...result })
  }
  return items
}
