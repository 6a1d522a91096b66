// Carries out an import against a controller, in this order: galleries, backends, models with their files and scheduling, rules of
// models that exist already, nodes, keys. Every step is safe to repeat and compares first, so that a second run changes nothing.
import { errorMessage, newId, sha256Hex } from '@muster/host'
import { backendRoutes, BackendName, galleryRoutes, type GalleryView, keyRoutes } from '@muster/protocol'
import { attempt, type ImportDeps, type ImportReport, type Item, type PartResult } from './import-item.ts'
import { importModels } from './import-models.ts'
import { importNodes, importRules } from './import-nodes.ts'
import type { Loss, Site } from './site.ts'

export async function importSite(site: Site, deps: ImportDeps): Promise<ImportReport> {
  // Outside of the parts: without a controller, or with a wrong key, there is nothing to report.
  const { body } = await deps.api.call(galleryRoutes.list)
  const imported = new Set<string>()
  const parts: readonly (readonly [Item['kind'], () => Promise<PartResult>])[] = [
    ['gallery', () => importGalleries(site, body.galleries, deps)],
    ['backend', () => importBackends(site, deps)],
    ['model', () => importModels(site, imported, deps)],
    ['scheduling', () => importRules(site, imported, deps)],
    ['node', () => importNodes(site, deps)],
    ['key', () => importKeys(site, deps)],
  ]
  const results: PartResult[] = []
  for (const [kind, run] of parts) results.push(await runPart(kind, run, deps))
  return {
    source: site.from,
    dry_run: deps.isDryRun,
    items: results.flatMap(({ items }) => items),
    losses: [...site.losses, ...results.flatMap(({ losses }) => losses)],
  }
}

/** A failure of one part does not stop the others; an interruption does. */
async function runPart(kind: Item['kind'], run: () => Promise<PartResult>, { signal }: ImportDeps): Promise<PartResult> {
  try {
    return await run()
  } catch (error) {
    if (signal.aborted) throw error
    return { items: [{ kind, name: 'all', outcome: 'failed', message: errorMessage(error) }], losses: [] }
  }
}

/** A controller may read a gallery for two minutes before it answers. */
const patientSignal = ({ signal }: ImportDeps): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(180_000)])

async function importGalleries(site: Site, stored: readonly GalleryView[], deps: ImportDeps): Promise<PartResult> {
  const { api, isDryRun, mayReplace } = deps
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
      const { body: view } = await api.call(galleryRoutes.put, { params: { name }, body: body.data, signal: patientSignal(deps) })
      return { outcome, message: view.problem === null || view.problem === undefined ? '' : `it cannot be read now: ${view.problem}` }
    })
    items.push({ kind: 'gallery', name, ...result })
  }
  return { items, losses: [] }
}

/** A load installs a missing backend, so by default only its name is checked. */
async function importBackends(site: Site, deps: ImportDeps): Promise<PartResult> {
  const { api, backends, isDryRun } = deps
  if (site.backends.length === 0) return { items: [], losses: [] }
  const installed = new Set((await api.call(backendRoutes.list)).body.backends.map(({ name }) => name.toLowerCase()))
  const offered = new Set(
    (await api.call(backendRoutes.gallery, { signal: patientSignal(deps) })).body.backends.map(({ name }) => name.toLowerCase()),
  )
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

/** Only hashes are sent. A controller answers 200 for a key that it has. */
async function importKeys(site: Site, { api, isDryRun, keyScope }: ImportDeps): Promise<PartResult> {
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
  return { items, losses: [] }
}
