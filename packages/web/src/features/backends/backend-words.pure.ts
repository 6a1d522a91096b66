// What is said of backends in words. Pure.
import type { BackendView, OfferedBackend, OperationView, UpgradeView } from '@muster/protocol'
import { listNames, plural, searchFor, shortId } from '../../format.ts'

type Build = Readonly<{ version: string; digest: string }>

/** `1.2`; one without a version goes by its digest. */
export const buildName = ({ version, digest }: Build): string =>
  version || (digest === '' ? 'an unknown build' : `build ${shortId(digest)}`)

/** Of all nodes, each once: `1.2`, `1.2 and 1.3`. */
export const buildNames = (builds: readonly Build[]): string => listNames([...new Set(builds.map(buildName))].toSorted(byNumbers))

const byNumbers = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

export type Upgrades = Readonly<Record<string, UpgradeView>>

/** Something newer is on offer; otherwise nodes merely differ. */
export const isNewer = ({ installed_digest, available_digest, installed_version, available_version }: UpgradeView): boolean =>
  available_digest !== '' && installed_digest !== ''
    ? available_digest !== installed_digest
    : available_version !== '' && available_version !== installed_version

/** `llama 1.2 → 1.3`; builds of one version are told apart by their digests. */
export function upgradeWords(name: string, upgrade: UpgradeView): string {
  if (!isNewer(upgrade)) return `${name} ${buildName(installedOf(upgrade))} (${driftWords(upgrade.node_drift.length)})`
  const [before, after] = [installedOf(upgrade), availableOf(upgrade)]
  const isSameVersion = buildName(before) === buildName(after)
  return isSameVersion
    ? `${name} ${buildName(before)}, build ${shortId(before.digest)} → ${shortId(after.digest)}`
    : `${name} ${buildName(before)} → ${buildName(after)}`
}

const installedOf = (upgrade: UpgradeView): Build => ({ version: upgrade.installed_version, digest: upgrade.installed_digest })
export const availableOf = (upgrade: UpgradeView): Build => ({ version: upgrade.available_version, digest: upgrade.available_digest })

export const driftWords = (count: number): string => `${plural(count, 'node has', 'nodes have')} another build`

const mostNamed = 4

/** `3 backends have updates: llama 1.2 → 1.3, …`; empty when there is none. */
export function upgradesSentence(upgrades: Upgrades): string {
  const all = Object.entries(upgrades).toSorted(([a], [b]) => byNumbers(a, b))
  if (all.length === 0) return ''
  const named = all.slice(0, mostNamed).map(([name, upgrade]) => upgradeWords(name, upgrade))
  const more = all.length > mostNamed ? ` and ${all.length - mostNamed} more` : ''
  return `${plural(all.length, 'backend has an update', 'backends have updates')}: ${named.join(', ')}${more}.`
}

/** Names of those of them that an operation is about to bring up to date. */
export const beingUpgraded = (upgrades: Upgrades, active: readonly OperationView[]): string[] => [
  ...new Set(
    active.flatMap(({ kind, backend }) => (kind === 'backend.upgrade' && backend !== null && backend in upgrades ? [backend] : [])),
  ),
]

/** The first sentence of the page. `upgrades` is null as long as nobody has looked for any. */
export function pageSentence(backends: readonly BackendView[], upgrades: Upgrades | null): string {
  if (backends.length === 0) return 'No backend is installed yet.'
  const nodes = new Set(backends.flatMap((backend) => backend.nodes.map(({ node_id: id }) => id)))
  const said = [`${plural(backends.length, 'backend')} on ${plural(nodes.size, 'node')}.`]
  const count = Object.keys(upgrades ?? {}).length
  if (count === 0 && upgrades !== null) said.push(backends.length === 1 ? 'It is up to date.' : 'All are up to date.')
  if (count > 0) said.push(`${count === backends.length && count > 1 ? 'All' : count} ${count === 1 ? 'has an update' : 'have updates'}.`)
  const away = new Set(backends.flatMap((backend) => backend.nodes.flatMap((node) => (isAway(node.node_status) ? [node.node_name] : []))))
  if (away.size > 0) said.push(`${listNames([...away].toSorted(byNumbers))} ${away.size === 1 ? 'is' : 'are'} away: shown as last seen.`)
  return said.join(' ')
}

export const isAway = (status: string): boolean => status === 'offline' || status === 'unhealthy'

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
