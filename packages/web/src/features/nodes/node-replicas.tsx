import type { NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { ReplicaStateMark } from '../models/replica-state.tsx'

export function NodeReplicas({ node }: { readonly node: NodeView }) {
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'An agent runs no models.' : 'No model runs here.'}>
      {node.node_type === 'backend' && (
        <Link to="/models" className="underline">
          Load one: models
        </Link>
      )}
    </Empty>
  )
  return (
    <Loaded query={replicas} what="its replicas" empty={empty}>
      {(all) => (
        <Table label="Replicas" columns={['Model', 'State', 'In flight', 'Revision', 'Since', 'Logs']}>
          {all.map((replica) => (
            <Row key={replica.id}>
              <Cell>
                <Link to="/models/$name" params={{ name: replica.model }} className="font-medium underline-offset-2 hover:underline">
                  {replica.model}
                </Link>
              </Cell>
              <Cell>
                <ReplicaStateMark replica={replica} />
              </Cell>
              <Cell>{replica.in_flight}</Cell>
              <Cell>
                <ShortId id={replica.revision} what="revision" />
              </Cell>
              <Cell>
                <When at={replica.started_at} />
              </Cell>
              <Cell>
                <Link to="." search={(before) => ({ ...before, tab: 'logs', model: replica.model })} className="underline">
                  Logs
                </Link>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}
