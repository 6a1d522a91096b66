// Which backends have a newer build on offer, and where nodes that should have the same one differ. Pure.
import type { InstalledBackend, UpgradeView } from '@muster/protocol'
import type { AvailableBackend } from '../store/available.ts'
import type { Installed } from './installed.ts'

export type BackendUpgrade = Readonly<{ hasUpgrade: boolean; view: UpgradeView }>

type Build = Pick<InstalledBackend, 'digest' | 'version'>

/** By digest when both have one, else by version; what says neither is taken for the same. */
function isSameBuild(a: Build, b: Build): boolean {
  if (a.digest !== '' && b.digest !== '') return a.digest === b.digest
  return a.version === '' || b.version === '' || a.version === b.version
}

export const hasUpgrade = ({ entry, offer }: Pick<Installed, 'entry' | 'offer'>): boolean => offer !== null && !isSameBuild(entry, offer)

/** `installed`: of one backend, sorted by the names of the nodes; at least one. */
export function upgradeOf(installed: readonly [Installed, ...Installed[]]): BackendUpgrade {
  const upgradable = installed.find(hasUpgrade)
  const { entry, offer } = upgradable ?? installed[0]
  const drift = [...Map.groupBy(installed, ({ group }) => group).values()].flatMap(driftIn)
  return {
    hasUpgrade: upgradable !== undefined,
    view: {
      installed_version: entry.version,
      available_version: offer?.version ?? '',
      installed_digest: entry.digest,
      available_digest: offer?.digest ?? '',
      node_drift: installed.filter((each) => drift.includes(each)).map(shownBuild),
    },
  }
}

const shownBuild = ({ node, entry }: Installed) => ({
  node_id: node.id,
  node_name: node.name,
  version: entry.version,
  digest: entry.digest,
})

function driftIn(group: readonly Installed[]): Installed[] {
  const usual = usualOf(group)
  return usual === null ? [] : group.filter(({ entry }) => !isSameBuild(entry, usual))
}

/** What most of them have; of several such, the one on offer, else the newest. Null when nobody says what it has. */
function usualOf(group: readonly Installed[]): InstalledBackend | null {
  const builds = [...Map.groupBy(group, ({ entry }) => keyOf(entry)).entries()].filter(([key]) => key !== '')
  const most = Math.max(0, ...builds.map(([, holders]) => holders.length))
  const tied = builds.filter(([, holders]) => holders.length === most).map(([, holders]) => holders)
  const offered = tied.find((holders) => holders.some(isCurrent))
  return (offered ?? tied.toSorted(newestFirst)[0])?.[0]?.entry ?? null
}

const keyOf = ({ digest, version }: Build): string => (digest === '' ? version : digest)
const isCurrent = ({ entry, offer }: { entry: Build; offer: AvailableBackend | null }): boolean =>
  offer !== null && entry.digest !== '' && entry.digest === offer.digest

function newestFirst(a: readonly Installed[], b: readonly Installed[]): number {
  const [ours, theirs] = [newest(a), newest(b)]
  return ours === theirs ? 0 : ours > theirs ? -1 : 1
}
const newest = (holders: readonly Installed[]): string =>
  holders.map(({ entry }) => entry.installed_at).reduce((max, at) => (at > max ? at : max), '')
