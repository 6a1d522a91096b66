// Pure: backends as table rows: installed, offered, and with an upgrade.
import type { BackendView, LeftOut, OfferedBackend, UpgradeView } from '@muster/protocol'
import type { Column } from '../output/table.ts'

const distinct = (values: readonly string[]): string[] => [...new Set(values.filter((value) => value !== ''))]

export const installedColumns: Column<BackendView>[] = [
  { heading: 'NAME', cell: (backend) => backend.name },
  { heading: 'VERSION', cell: versionsOf, shrinks: true },
  { heading: 'STATE', cell: stateOf },
  { heading: 'NODES', cell: (backend) => `${backend.nodes.length}: ${backend.nodes.map(nodeText).join(', ')}`, shrinks: true },
]

function versionsOf({ nodes, metadata }: BackendView): string {
  const versions = distinct(nodes.map((node) => node.version))
  return versions.length === 0 ? metadata.version : versions.join(', ')
}

function stateOf({ upgrade_available: upgrade, drift, is_system: isSystem }: BackendView): string {
  const states = [...(upgrade ? ['upgrade available'] : []), ...(drift ? ['drift'] : [])]
  return states.length > 0 ? states.join(', ') : isSystem ? 'system' : 'current'
}

function nodeText({ node_name: name, node_status: status, damaged }: BackendView['nodes'][number]): string {
  const notes = [...(damaged === true ? ['damaged'] : []), ...(status === 'healthy' ? [] : [status])]
  return notes.length === 0 ? name : `${name} (${notes.join(', ')})`
}

export const offeredColumns: Column<OfferedBackend>[] = [
  { heading: 'NAME', cell: (offered) => offered.name },
  { heading: 'VERSION', cell: (offered) => offered.version, shrinks: true },
  { heading: 'GALLERY', cell: (offered) => offered.gallery, shrinks: true },
  { heading: 'INSTALLED', cell: (offered) => (offered.installed ? 'yes' : 'no') },
  { heading: 'FITS', cell: fitsText, shrinks: true },
  { heading: 'DESCRIPTION', cell: (offered) => offered.description, shrinks: true },
]

/** `2 of 3 nodes`; with the reason when it fits none. */
function fitsText({ nodes }: OfferedBackend): string {
  const fitting = nodes.filter((node) => node.fits).length
  const count = `${fitting} of ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}`
  const [reason] = distinct(nodes.map((node) => node.reason ?? ''))
  return fitting > 0 || reason === undefined ? count : `${count}: ${reason}`
}

/** `localai: 2 entries cannot be read and are left out; entry 5 (llama): …`. */
export function leftOutRemark({ gallery, count, entries: [first] }: LeftOut): string {
  const counted = count === 1 ? '1 entry cannot be read and is left out' : `${count} entries cannot be read and are left out`
  const named = first === undefined ? '' : `; entry ${first.index + 1}${first.name === '' ? '' : ` (${first.name})`}: ${first.message}`
  return `${gallery}: ${counted}${named}`
}

export interface NamedUpgrade extends UpgradeView {
  readonly name: string
}

/** The build in the column INSTALLED is not named again. */
function driftText({ node_drift: drift, installed_version, installed_digest }: UpgradeView): string {
  const installed = buildText(installed_version, installed_digest)
  const isNamed = ({ version, digest }: UpgradeView['node_drift'][number]): boolean => buildText(version, digest) === installed
  const named = drift.filter(isNamed).map((node) => node.node_name)
  const others = drift.filter((node) => !isNamed(node)).map((node) => `${node.node_name} has ${buildText(node.version, node.digest)}`)
  return [...(named.length === 0 ? [] : [`only ${named.join(' and ')} ${named.length === 1 ? 'has' : 'have'} it`]), ...others].join(', ')
}

export const upgradeColumns: Column<NamedUpgrade>[] = [
  { heading: 'NAME', cell: (upgrade) => upgrade.name },
  { heading: 'INSTALLED', cell: (upgrade) => buildText(upgrade.installed_version, upgrade.installed_digest), shrinks: true },
  { heading: 'AVAILABLE', cell: (upgrade) => buildText(upgrade.available_version, upgrade.available_digest), shrinks: true },
  { heading: 'DRIFT', cell: driftText, shrinks: true },
]

/** Two builds may have the same version. */
function buildText(version: string, digest: string): string {
  const short = digest.replace(/^sha256:/, '').slice(0, 12)
  return version === '' || short === '' ? version || short : `${version} (${short})`
}
