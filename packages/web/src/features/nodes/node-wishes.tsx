import type { IntentView, NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodeIntentsQuery } from '../../api/queries.ts'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Pill, type Tone } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'

const tones: Readonly<Record<IntentView['state'], Tone>> = {
  waiting: 'wait',
  sending: 'work',
  working: 'work',
  applied: 'good',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'idle',
}

/** The last wish about each backend, also one that has come to its end. */
export function NodeWishes({ node }: { readonly node: NodeView }) {
  const intents = useQuery(nodeIntentsQuery(node.id))
  return (
    <Loaded
      query={intents}
      what="what was wished of it"
      empty={
        <Empty title="Nothing was wished of its backends yet.">
          <Link to="/backends" className="underline">
            Install one: backends
          </Link>
        </Empty>
      }
    >
      {(all) => (
        <Table label="Wishes" columns={['Wish', 'State', 'Attempts', 'Next try', 'Why', 'Operation']}>
          {all.map((intent) => (
            <Row key={intent.backend}>
              <Cell className="whitespace-nowrap">
                {intent.kind} <span className="font-medium">{intent.backend}</span>
              </Cell>
              <Cell>
                <Pill tone={tones[intent.state]}>{intent.state}</Pill>
              </Cell>
              <Cell>{intent.attempts}</Cell>
              <Cell>{intent.next_retry_at === null ? '–' : <When at={intent.next_retry_at} />}</Cell>
              <Cell className="min-w-48 [overflow-wrap:anywhere]">{intent.failure?.message ?? intent.message}</Cell>
              <Cell>
                <Link to="." search={(before) => ({ ...before, op: intent.operation_id })} className="underline">
                  Follow
                </Link>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}
