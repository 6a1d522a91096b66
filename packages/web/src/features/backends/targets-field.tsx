// On which nodes: all that can be meant, some of them, or those with certain labels.
import type { NodeView } from '@muster/protocol'
import { TextArea } from '../../components/field.tsx'
import { Check, OneOf } from '../../components/choices.tsx'
import type { Targets } from './wish.ts'

export interface TargetsFieldProps {
  readonly targets: Targets
  readonly onChange: (targets: Targets) => void
  /** Those that can be chosen. */
  readonly nodes: readonly NodeView[]
  /** What `all` means. */
  readonly all: string
  readonly problem: string | null
  /** Labels can't be asked for everywhere. */
  readonly hasLabels: boolean
}

export function TargetsField({ targets, onChange, nodes, all, problem, hasLabels }: TargetsFieldProps) {
  const { by, labels } = targets
  const choices = [
    { value: 'all', label: all },
    { value: 'nodes', label: 'Only on chosen nodes' },
    ...(hasLabels ? [{ value: 'labels', label: 'Only on nodes with labels' } as const] : []),
  ] as const
  return (
    <div className="flex flex-col gap-2">
      <OneOf legend="Where" choices={choices} chosen={by} onChoose={(chosen) => onChange({ ...targets, by: chosen })} />
      {by === 'nodes' && <NodeChoices targets={targets} onChange={onChange} nodes={nodes} problem={problem} />}
      {by === 'labels' && (
        <TextArea
          label="Labels"
          rows={3}
          spellCheck={false}
          placeholder="rack=b2"
          className="font-mono"
          value={labels}
          onChange={(event) => onChange({ ...targets, labels: event.target.value })}
          hint="One on each line, as rack=b2. The same key again: one of its values. * any value, ! none, !x another one."
          error={labels === '' ? null : problem}
        />
      )}
    </div>
  )
}

function NodeChoices({ targets, onChange, nodes, problem }: Pick<TargetsFieldProps, 'targets' | 'onChange' | 'nodes' | 'problem'>) {
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="sr-only">Chosen nodes</legend>
      <div className="flex max-h-48 flex-col gap-1 overflow-y-auto rounded-md border p-2">
        {nodes.map(({ id, name, status }) => (
          <Check
            key={id}
            label={name}
            {...(status === 'healthy' ? {} : { hint: status })}
            isChecked={targets.nodes.includes(id)}
            onChange={(isChecked) =>
              onChange({ ...targets, nodes: isChecked ? [...targets.nodes, id] : targets.nodes.filter((chosen) => chosen !== id) })
            }
          />
        ))}
      </div>
      {/* Its place is kept. */}
      <p className="min-h-5 text-soft">{problem}</p>
    </fieldset>
  )
}
