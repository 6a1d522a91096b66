import type { NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodeBackendsQuery, upgradesQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'

export function NodeBackends({ node }: { readonly node: NodeView }) {
  const backends = useQuery(nodeBackendsQuery(node.id))
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'An agent has no backends.' : 'No backend is installed here.'}>
      {node.node_type === 'backend' && <p>A model that is placed here brings its own.</p>}
      <Link to="/backends" className="underline">
        Backends
      </Link>
    </Empty>
  )
  return (
    <Loaded query={backends} what="its backends" empty={empty}>
      {(all) => (
        <Table label="Backends" columns={['Backend', 'Version', 'Digest', 'Installed', 'Update']}>
          {all.map(({ name, version, digest, installed_at: at }) => {
            const upgrade = upgrades[name]
            return (
              <Row key={name}>
                <Cell>
                  <Link to="/backends" search={{ q: name }} className="font-medium underline-offset-2 hover:underline">
                    {name}
                  </Link>
                </Cell>
                <Cell>{version === '' ? '–' : version}</Cell>
                <Cell>{digest === '' ? '–' : <ShortId id={digest} what="digest" />}</Cell>
                <Cell>
                  <When at={at} />
                </Cell>
                <Cell>
                  {upgrade !== undefined && upgrade.available_digest !== digest && (
                    <Pill tone="wait" sign="⇡" hint="a newer build is offered">
                      {upgrade.available_version === '' ? 'update available' : `${upgrade.available_version} available`}
                    </Pill>
                  )}
                </Cell>
              </Row>
            )
          })}
        </Table>
      )}
    </Loaded>
  )
}
