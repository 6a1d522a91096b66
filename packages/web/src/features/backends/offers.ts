// What galleries offer, in words, and which of it was searched for. Pure.
import type { OfferedBackend } from '@muster/protocol'
import { listNames, plural } from '../../format/amounts.ts'
import { searchFor } from '../../format/search.ts'

type Fit = OfferedBackend['nodes'][number]

/** `fits 4 of 5 nodes`. */
export function fitWords(nodes: readonly Pick<Fit, 'fits'>[]): string {
  if (nodes.length === 0) return 'there is no node yet'
  const fitting = nodes.filter(({ fits }) => fits).length
  if (fitting === 0) return nodes.length === 1 ? 'does not fit the only node' : `fits none of ${nodes.length} nodes`
  if (fitting < nodes.length) return `fits ${fitting} of ${nodes.length} nodes`
  return nodes.length === 1 ? 'fits the only node' : `fits all ${plural(nodes.length, 'node')}`
}

/** Each reason once, with the nodes it keeps out: `gpu-1 and gpu-2: no image for …`. */
export function misfits(nodes: readonly Fit[]): string[] {
  const out = nodes.filter(({ fits }) => !fits)
  return [...Map.groupBy(out, ({ reason }) => reason ?? 'it is not said why')].map(
    ([reason, of]) => `${listNames(of.map(({ node_name: name }) => name))}: ${reason}`,
  )
}

export function searchOffers(offers: readonly OfferedBackend[], text: string): readonly OfferedBackend[] {
  const isFound = searchFor(text)
  return offers.filter(({ name, description, license, gallery, tags }) => isFound(name, description, license, gallery, ...tags))
}
