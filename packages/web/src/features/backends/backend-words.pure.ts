// Texts about installed backends, their updates, and offers of galleries.
import type { BackendView, OfferedBackend, OperationView, UpgradeView } from '@muster/protocol'
import { listNames, plural, searchFor, shortId } from '../../format.ts'

type Build = Readonly<{ version: string; digest: string }>

/** The version, or the digest of a build without one. */
export const buildName = ({ version, digest }: Build): string => version || (digest === '' ? 'unknown build' : `build ${shortId(digest)}`)

/** With the digest when another one of these builds has the same version. */
export function buildNameAmong(build: Build, builds: readonly Build[]): string {
  const isAmbiguous = builds.some(({ version, digest }) => version === build.version && digest !== build.digest && digest !== '')
  return isAmbiguous && build.version !== '' && build.digest !== '' ? `${build.version}, build ${shortId(build.digest)}` : buildName(build)
}

/** Each build once: `1.2 and 1.3`. */
export const buildNames = (builds: readonly Build[]): string =>
  listNames([...new Set(builds.map((build) => buildNameAmong(build, builds)))].toSorted(byNumbers))

const byNumbers = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

export type Upgrades = Readonly<Record<string, UpgradeView>>

/** A newer build is available; otherwise only the nodes differ. */
export const isNewer = ({ installed_digest, available_digest, installed_version, available_version }: UpgradeView): boolean =>
  available_digest !== '' && installed_digest !== ''
    ? available_digest !== installed_digest
    : available_version !== '' && available_version !== installed_version

/** `llama 1.2 → 1.3`; builds of the same version are named by their digests. */
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

export const driftWords = (count: number): string => `${plural(count, 'node has', 'nodes have')} a different build`

const maxNamed = 4

/** `3 updates available: llama 1.2 → 1.3, …`; empty when there are none. */
export function upgradesSentence(upgrades: Upgrades): string {
  const all = Object.entries(upgrades).toSorted(([a], [b]) => byNumbers(a, b))
  if (all.length === 0) return ''
  const named = all.slice(0, maxNamed).map(([name, upgrade]) => upgradeWords(name, upgrade))
  const more = all.length > maxNamed ? ` and ${all.length - maxNamed} more` : ''
  return `${plural(all.length, 'update')} available: ${named.join(', ')}${more}.`
}

/** Backends that a running operation upgrades. */
export const beingUpgraded = (upgrades: Upgrades, active: readonly OperationView[]): string[] => [
  ...new Set(
    active.flatMap(({ kind, backend }) => (kind === 'backend.upgrade' && backend !== null && backend in upgrades ? [backend] : [])),
  ),
]

/** The sentence of the page. `upgrades` is null until the first check. */
export function pageSentence(backends: readonly BackendView[], upgrades: Upgrades | null): string {
  if (backends.length === 0) return 'No backends installed.'
  const nodes = new Set(backends.flatMap((backend) => backend.nodes.map(({ node_id: id }) => id)))
  const parts = [`${plural(backends.length, 'backend')} on ${plural(nodes.size, 'node')}.`]
  const count = Object.keys(upgrades ?? {}).length
  if (count === 0 && upgrades !== null) parts.push(backends.length === 1 ? 'Up to date.' : 'All up to date.')
  if (count > 0) parts.push(`${plural(count, 'update')} available.`)
  const away = new Set(backends.flatMap((backend) => backend.nodes.flatMap((node) => (isAway(node.node_status) ? [node.node_name] : []))))
  if (away.size > 0)
    parts.push(`${listNames([...away].toSorted(byNumbers))} ${away.size === 1 ? 'is' : 'are'} unreachable; shown as last seen.`)
  return parts.join(' ')
}

export const isAway = (status: string): boolean => status === 'offline' || status === 'unhealthy'

type Fit = OfferedBackend['nodes'][number]

/** `fits 4 of 5 nodes`. */
export function fitWords(nodes: readonly Pick<Fit, 'fits'>[]): string {
  if (nodes.length === 0) return 'no nodes yet'
  const fitting = nodes.filter(({ fits }) => fits).length
  return fitting === nodes.length && fitting > 1 ? `fits all ${fitting} nodes` : `fits ${fitting} of ${plural(nodes.length, 'node')}`
}

/** Each reason once, with its nodes: `gpu-1 and gpu-2: no image for …`. */
export function misfits(nodes: readonly Fit[]): string[] {
  const unfit = nodes.filter(({ fits }) => !fits)
  return [...Map.groupBy(unfit, ({ reason }) => reason ?? 'no reason given')].map(
    ([reason, of]) => `${listNames(of.map(({ node_name: name }) => name))}: ${reason}`,
  )
}

export function searchOffers(offers: readonly OfferedBackend[], text: string): readonly OfferedBackend[] {
  const isFound = searchFor(text)
  return offers.filter(({ name, description, license, gallery, tags }) => isFound(name, description, license, gallery, ...tags))
}
