// Installed backends with their builds; each expands to its nodes.
import type { BackendOnNode, BackendView, UpgradeView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { ShortId } from '../../components/copy.tsx'
import { Empty } from '../../components/loaded.tsx'
import { Pill } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { plural, searchFor } from '../../format.ts'
import { statusSign, statusTone } from '../nodes/node-words.pure.ts'
import { BackendSearch } from './gallery-list.tsx'
import { availableOf, buildName, buildNameAmong, buildNames, driftWords, isNewer, type Upgrades } from './backend-words.pure.ts'
import { ChangeLink } from './change-sheet.tsx'

export function InstalledList({ backends, upgrades, q }: { backends: readonly BackendView[]; upgrades: Upgrades; q: string }) {
  const isFound = searchFor(q)
  const matching = backends.filter(({ name }) => isFound(name))
  return (
    <>
      <BackendSearch label="Search installed backends" q={q} />
      {matching.length === 0 ? (
        <Empty title="No backends match this search." />
      ) : (
        <ul aria-label="Installed backends" className="flex flex-col divide-y rounded-md border bg-raised">
          {matching.map((backend) => (
            <li key={backend.name} data-row="" className="flex flex-col gap-1 px-3 py-2.5">
              <Backend backend={backend} upgrade={upgrades[backend.name]} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Backend({ backend, upgrade }: { readonly backend: BackendView; readonly upgrade: UpgradeView | undefined }) {
  const { name, nodes, is_meta: isMeta, is_system: isSystem } = backend
  return (
    <article aria-label={name} className="flex flex-col gap-1">
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="flex min-w-0 flex-1 basis-72 flex-wrap items-baseline gap-x-3 gap-y-0.5">
          <h2 className="font-semibold [overflow-wrap:anywhere]">{name}</h2>
          <span className="[overflow-wrap:anywhere]">{buildNames(nodes)}</span>
          {isMeta && <span className="text-soft">meta, resolved per node</span>}
          {isSystem && <span className="text-soft">preinstalled</span>}
          {upgrade !== undefined && isNewer(upgrade) && (
            <Pill tone="wait" sign="⇡" hint={`${buildName(availableOf(upgrade))} is available`}>
              update available
            </Pill>
          )}
          {upgrade !== undefined && upgrade.node_drift.length > 0 && (
            <Pill
              tone="wait"
              sign="≠"
              hint={upgrade.node_drift.map((node) => `${node.node_name} has ${buildNameAmong(node, nodes)}`).join(', ')}
            >
              {driftWords(upgrade.node_drift.length)}
            </Pill>
          )}
        </div>
        <div className="flex flex-wrap gap-2">
          <ChangeLink act="upgrade" backend={name} label={`Upgrade ${name}`}>
            Upgrade
          </ChangeLink>
          <ChangeLink act="install" backend={name} label={`Install on more nodes: ${name}`}>
            Install on more nodes
          </ChangeLink>
          <ChangeLink act="delete" backend={name} label={`Delete ${name}`}>
            Delete
          </ChangeLink>
        </div>
      </header>
      <details>
        <summary className="w-fit text-[13px] text-soft hover:text-ink">on {plural(nodes.length, 'node')}</summary>
        <div className="pt-2">
          <NodesTable backend={name} nodes={nodes} />
        </div>
      </details>
    </article>
  )
}

function NodesTable({ backend, nodes }: { readonly backend: string; readonly nodes: readonly BackendOnNode[] }) {
  return (
    <Table label={`Nodes with ${backend}`} columns={['Node', 'Status', 'Version', 'Digest', 'Installed']}>
      {nodes.map((node) => (
        <Row key={node.node_id} className="lazy-row">
          <Cell className="[overflow-wrap:anywhere]">
            <Link
              to="/nodes/$id"
              params={{ id: node.node_id }}
              className="underline decoration-line underline-offset-2 hover:decoration-current"
            >
              {node.node_name}
            </Link>
          </Cell>
          <Cell>
            <Pill tone={statusTone[node.node_status]} sign={statusSign[node.node_status]}>
              {node.node_status}
            </Pill>
            {node.damaged === true && <DamagedPill />}
          </Cell>
          <Cell className="[overflow-wrap:anywhere]">{node.version || '–'}</Cell>
          <Cell>{node.digest === '' ? '–' : <ShortId id={node.digest} what={`digest on ${node.node_name}`} />}</Cell>
          <Cell>
            <When at={node.installed_at} />
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

export function DamagedPill() {
  return (
    <Pill tone="bad" sign="!" hint="Files are missing or changed. An install or an upgrade repairs it.">
      damaged
    </Pill>
  )
}
