// Imports what concerns objects that exist here already: rules of scheduling for models, labels and VRAM budgets for nodes.
import { isDeepStrictEqual } from 'node:util'
import { LabelPatch, ModelName, modelRoutes, nodeRoutes, type NodeView } from '@muster/protocol'
import { attempt, type ImportDeps, type Item, type PartResult, type Result } from './import-item.ts'
import { toScheduling } from './scheduling.pure.ts'
import type { Loss, Site, SiteNode } from './site.ts'

/** Rules of models that this site does not describe, such as models that were installed here before. */
export async function importRules(
  site: Site,
  imported: ReadonlySet<string>,
  { api, isDryRun, mayReplace }: ImportDeps,
): Promise<PartResult> {
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

export async function importNodes(site: Site, deps: ImportDeps): Promise<PartResult> {
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
