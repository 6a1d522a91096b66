// The replicas of a model.
import type { ModelView, ReplicaView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { modelReplicasQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { ReplicaStateMark } from './model-state.tsx'
import { NodeModelMenu } from './node-model-actions.tsx'

export function ReplicasTab({ model }: { readonly model: ModelView }) {
  const replicas = useQuery(modelReplicasQuery(model.name))
  return (
    <Loaded
      query={replicas}
      what="replicas"
      empty={
        <Empty title="No replicas running.">
          <p>Load the model, send it a request, or set a minimum in Scheduling.</p>
        </Empty>
      }
    >
      {(all) => (
        <Table label="Replicas" columns={['Node', 'State', 'In flight', 'Revision', 'Backend', 'Started', '']}>
          {all.map((replica) => (
            <ReplicaRow key={replica.id} replica={replica} model={model} />
          ))}
        </Table>
      )}
    </Loaded>
  )
}

function ReplicaRow({ replica, model }: { readonly replica: ReplicaView; readonly model: ModelView }) {
  const { id, node_id: nodeId, node_name: node, in_flight: inFlight, revision, backend_digest: digest } = replica
  return (
    <Row aria-label={`${node} ${id}`}>
      <Cell className="max-w-72 [overflow-wrap:anywhere]">
        <Link to="/nodes/$id" params={{ id: nodeId }} className="font-medium hover:underline">
          {node}
        </Link>
      </Cell>
      <Cell>
        <ReplicaStateMark replica={replica} />
      </Cell>
      <Cell>{inFlight}</Cell>
      <Cell>
        <ShortId id={revision} what="revision" />
        {revision !== model.revision && <span className="block text-wait">older revision</span>}
      </Cell>
      <Cell>{digest === null ? <span className="text-soft">–</span> : <ShortId id={digest} what="backend digest" />}</Cell>
      <Cell>
        <When at={replica.started_at} />
      </Cell>
      <Cell>
        <Link
          to="/nodes/$id"
          params={{ id: nodeId }}
          search={{ tab: 'logs', model: model.name }}
          aria-label={`Logs of ${model.name} on ${node}`}
          className="underline"
        >
          Logs
        </Link>
        {replica.state !== 'exited' && <NodeModelMenu model={model.name} node={{ id: nodeId, name: node }} on={nodeId} />}
      </Cell>
    </Row>
  )
}
