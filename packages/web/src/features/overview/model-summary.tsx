// The models at a glance: how each stands, and how many processes serve it.
import type { ModelView } from '@muster/protocol'
import { Link } from '@tanstack/react-router'
import { Section } from '../../components/page.tsx'
import { Pill } from '../../components/state-mark.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { modelTones, replicasOf } from '../models/model-words.ts'

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
        {models.slice(0, most).map(({ name, state, ...model }) => (
          <Row key={name}>
            <Cell className="[overflow-wrap:anywhere]">
              <Link to="/models/$name" params={{ name }} className="font-medium hover:underline">
                {name}
              </Link>
            </Cell>
            <Cell>
              <Pill tone={modelTones[state]}>{state}</Pill>
            </Cell>
            <Cell className="whitespace-nowrap">{replicasOf(model)}</Cell>
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
