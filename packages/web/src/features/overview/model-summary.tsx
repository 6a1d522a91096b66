// The models at a glance: how each stands, and how many processes serve it.
import type { ModelState, ModelView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { Section } from '../../components/page.tsx'
import { Pill, type Tone } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'

const tones: Readonly<Record<ModelState, Tone>> = {
  unloaded: 'idle',
  pending: 'wait',
  installing: 'work',
  staging: 'work',
  loading: 'work',
  ready: 'good',
  failed: 'bad',
}
const most = 12

export function ModelSummary({ models }: { readonly models: readonly ModelView[] }) {
  if (models.length === 0) return null
  return (
    <Section
      title="Models"
      actions={
        <Link to="/models" className="text-soft underline hover:text-ink">
          {models.length > most ? `All ${models.length}` : 'All of them'}
        </Link>
      }
    >
      <Table label="Models" columns={['Model', 'State', 'Replicas ready', '']}>
        {models.slice(0, most).map(({ name, state, replicas_ready: ready, replicas_desired: desired }) => (
          <Row key={name}>
            <Cell className="[overflow-wrap:anywhere]">
              <Link to="/models/$name" params={{ name }} className="font-medium hover:underline">
                {name}
              </Link>
            </Cell>
            <Cell>
              <Pill tone={tones[state]}>{state}</Pill>
            </Cell>
            <Cell className="whitespace-nowrap">
              {ready} of {Math.max(ready, desired)}
            </Cell>
            <Cell className="text-right">
              <Link to="/playground" search={{ model: name }} aria-label={`Ask ${name}`} className="underline">
                Ask
              </Link>
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  )
}
