// The fields of a model's scheduling.
import { Button } from '../../components/button.tsx'
import { SelectField, TextField } from '../../components/field.tsx'
import type { SchedulingErrors, SchedulingForm, SelectorRow } from './scheduling-form.ts'

export interface SchedulingFieldsProps {
  readonly form: SchedulingForm
  readonly errors: SchedulingErrors
  readonly onChange: (form: SchedulingForm) => void
}

const spreads = [
  { value: 'count', label: 'as many as are needed' },
  { value: 'all', label: 'one on every node that fits' },
]
const policies = [
  { value: '', label: 'prefix (default)' },
  { value: 'prefix', label: 'prefix: conversations stay where their beginning is cached' },
  { value: 'least', label: 'least: the replica with the fewest requests' },
]

export function SchedulingFields({ form, errors, onChange }: SchedulingFieldsProps) {
  const set = (change: Partial<SchedulingForm>): void => onChange({ ...form, ...change })
  return (
    <>
      <SelectField
        label="Replicas"
        choices={spreads}
        value={form.spread}
        onChange={({ target }) => set({ spread: target.value === 'all' ? 'all' : 'count' })}
      />
      {form.spread === 'count' && (
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="At least"
            inputMode="numeric"
            placeholder="0"
            hint="kept up without requests"
            value={form.min}
            error={errors.min ?? null}
            onChange={({ target }) => set({ min: target.value })}
          />
          <TextField
            label="At most"
            inputMode="numeric"
            placeholder="1, or the minimum"
            hint="0 is no limit"
            value={form.max}
            error={errors.max ?? null}
            onChange={({ target }) => set({ max: target.value })}
          />
        </div>
      )}
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label="Priority"
          inputMode="numeric"
          placeholder="0"
          hint="the higher stays when room is short"
          value={form.priority}
          error={errors.priority ?? null}
          onChange={({ target }) => set({ priority: target.value })}
        />
        <SelectField label="Policy" choices={policies} value={form.policy} onChange={({ target }) => set({ policy: target.value })} />
      </div>
      <SelectorFields rows={form.selector} errors={errors.selector} onChange={(selector) => set({ selector })} />
      {errors.other !== undefined && (
        <p role="alert" className="text-bad">
          {errors.other}
        </p>
      )}
    </>
  )
}

interface SelectorFieldsProps {
  readonly rows: readonly SelectorRow[]
  readonly errors: SchedulingErrors['selector']
  readonly onChange: (rows: readonly SelectorRow[]) => void
}

function SelectorFields({ rows, errors, onChange }: SelectorFieldsProps) {
  const replace = (at: number, change: Partial<SelectorRow>): void =>
    onChange(rows.map((row, index) => (index === at ? { ...row, ...change } : row)))
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium">Only nodes with these labels</legend>
      {rows.map((row, at) => (
        // Rows have no name of their own, and never change places.
        <div key={at} className="grid grid-cols-[1fr_1fr_auto] items-start gap-2">
          <TextField
            label={`Label ${at + 1}`}
            isLabelHidden
            placeholder="label"
            value={row.label}
            error={errors[at] ?? null}
            onChange={({ target }) => replace(at, { label: target.value })}
          />
          <TextField
            label={`Value of label ${at + 1}`}
            isLabelHidden
            placeholder="value, another"
            value={row.value}
            onChange={({ target }) => replace(at, { value: target.value })}
          />
          <Button aria-label={`Remove label ${at + 1}`} onClick={() => onChange(rows.filter((_, index) => index !== at))}>
            ✕
          </Button>
        </div>
      ))}
      <div>
        <Button onClick={() => onChange([...rows, { label: '', value: '' }])}>Add a label</Button>
      </div>
      <p className="text-soft">
        Several values with commas mean one of them; <code>*</code> is any, <code>!</code> none, <code>!x</code> not x.
      </p>
    </fieldset>
  )
}
