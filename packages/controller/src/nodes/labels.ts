// Labels of a node. Pure. Precedence: labels that Muster derives, then labels of an administrator, then labels of the worker.
import type { Resources } from '@muster/protocol'

export interface LabelSources {
  readonly name: string
  readonly os: string
  readonly arch: string
  readonly resources: Pick<Resources, 'gpu_vendor' | 'total_vram'>
  readonly reportedLabels: Readonly<Record<string, string>>
  readonly labelOverrides: Readonly<Record<string, string | null>>
}
export type Overrides = Record<string, string | null>

/** Labels of all origins together. */
const maxLabels = 128

export type LabelEdit =
  | { readonly outcome: 'ok'; readonly overrides: Overrides }
  | { readonly outcome: 'too_many'; readonly message: string }

const gibibyte = 2 ** 30

function automatic(node: LabelSources): Record<string, string> {
  const labels: Record<string, string> = { 'node.name': node.name, 'node.os': node.os, 'node.arch': node.arch }
  if (node.resources.gpu_vendor !== null) labels['gpu.vendor'] = node.resources.gpu_vendor
  if (node.resources.total_vram !== null && node.resources.total_vram > 0) {
    labels['gpu.vram'] = `${Math.round(node.resources.total_vram / gibibyte)}GB`
  }
  return labels
}

export function effectiveLabels(node: LabelSources): Record<string, string> {
  const labels: Record<string, string> = { ...node.reportedLabels }
  for (const [key, value] of Object.entries(node.labelOverrides)) {
    if (value === null) delete labels[key]
    else labels[key] = value
  }
  return Object.fromEntries(Object.entries({ ...labels, ...automatic(node) }).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** Overrides after which the node has these labels and no others. */
export function replaceLabels(node: LabelSources, wanted: Readonly<Record<string, string>>): Overrides {
  const takenAway = Object.keys(node.reportedLabels).filter((key) => !Object.hasOwn(wanted, key))
  return { ...wanted, ...Object.fromEntries(takenAway.map((key) => [key, null])) }
}

/** Overrides after a change of some labels. A null stays only where it removes a label of the worker. */
export function patchLabels(node: LabelSources, patch: Readonly<Record<string, string | null>>): Overrides {
  const merged = { ...node.labelOverrides, ...patch }
  return Object.fromEntries(Object.entries(merged).filter(([key, value]) => value !== null || Object.hasOwn(node.reportedLabels, key)))
}

/** Checks the number of labels that the node would have with these overrides. */
export function checkOverrides(node: LabelSources, overrides: Overrides): LabelEdit {
  const count = Object.keys(effectiveLabels({ ...node, labelOverrides: overrides })).length
  if (count <= maxLabels) return { outcome: 'ok', overrides }
  return { outcome: 'too_many', message: `node ${node.name} would have ${count} labels; at most ${maxLabels} are kept` }
}
