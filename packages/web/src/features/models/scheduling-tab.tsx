// The scheduling of a model as a form, with a preview of its placement.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { modelRoutes, type ModelView, type Scheduling } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Form, SelectField, TextField } from '../../components/field.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { UnsavedGuard } from './config-editor.tsx'
import { cacheSavedModel } from './model-actions.tsx'
import { PlacementPreview } from './placement-tab.tsx'
import { formOf, readForm, type SchedulingErrors, type SchedulingForm, type SelectorRow } from './scheduling-form.pure.ts'

export function SchedulingTab({ model }: { readonly model: ModelView }) {
  const [typed, setTyped] = useState<SchedulingForm | null>(null)
  const saved = formOf(model.config.scheduling)
  const form = typed ?? saved
  const read = readForm(form)
  const isDirty = typed !== null && JSON.stringify(typed) !== JSON.stringify(saved)
  // Changes typed while saving stay.
  const save = useSaveScheduling(model, (sent) => setTyped((now) => (now === sent ? null : now)))
  return (
    <div className="grid gap-6 lg:grid-cols-2">
      <UnsavedGuard isDirty={isDirty && !save.isPending} what={`the scheduling of ${model.name}`} />
      <Form
        aria-label="Scheduling"
        className="flex flex-col gap-4"
        onSubmit={() => {
          if (read.isValid && isDirty) save.mutate({ form, scheduling: read.scheduling })
        }}
      >
        <SchedulingFields form={form} errors={read.isValid ? { selector: {} } : read.errors} onChange={setTyped} />
        {save.error !== null && <Failed title="Could not save" error={save.error} />}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="primary" isBusy={save.isPending} disabled={!read.isValid || !isDirty}>
            Save scheduling
          </Button>
          <Button disabled={!isDirty} onClick={() => setTyped(null)}>
            Discard changes
          </Button>
        </div>
        <p className="text-soft">Running replicas are not restarted; replicas are only added or drained.</p>
      </Form>
      <PlacementPreview name={model.name} scheduling={read.isValid && isDirty ? read.scheduling : null} isValid={read.isValid} />
    </div>
  )
}

function useSaveScheduling({ name }: ModelView, onSaved: (sent: SchedulingForm) => void) {
  const queries = useQueryClient()
  const notify = useNotices()
  return useMutation({
    mutationFn: ({ scheduling }: { form: SchedulingForm; scheduling: Scheduling }) =>
      call(modelRoutes.scheduling, { params: { name }, body: scheduling }),
    onSuccess(saved, { form }) {
      cacheSavedModel(queries, saved)
      onSaved(form)
      notify('good', `Saved scheduling of ${name}`)
    },
  })
}

interface SchedulingFieldsProps {
  readonly form: SchedulingForm
  readonly errors: SchedulingErrors
  readonly onChange: (form: SchedulingForm) => void
}

const spreads = [
  { value: 'count', label: 'As many as needed' },
  { value: 'all', label: 'One on every eligible node' },
]
const states = [
  { value: 'enabled', label: 'Enabled' },
  { value: 'disabled', label: 'Disabled: no replica runs, requests are refused' },
]
const policies = [
  { value: '', label: 'Default (prefix)' },
  { value: 'prefix', label: 'Prefix: keeps a conversation on the replica that cached its beginning' },
  { value: 'least', label: 'Least: the replica with the fewest requests' },
]

function SchedulingFields({ form, errors, onChange }: SchedulingFieldsProps) {
  const set = (change: Partial<SchedulingForm>): void => onChange({ ...form, ...change })
  return (
    <>
      <SelectField
        label="Model"
        choices={states}
        value={form.isDisabled ? 'disabled' : 'enabled'}
        onChange={({ target }) => set({ isDisabled: target.value === 'disabled' })}
      />
      <SelectField
        label="Replicas"
        choices={spreads}
        value={form.spread}
        onChange={({ target }) => set({ spread: target.value === 'all' ? 'all' : 'count' })}
      />
      {form.spread === 'count' && <CountFields form={form} errors={errors} set={set} />}
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label="Priority"
          inputMode="numeric"
          placeholder="0"
          hint="Higher priorities are evicted last"
          value={form.priority}
          error={errors.priority ?? null}
          onChange={({ target }) => set({ priority: target.value })}
        />
        <SelectField
          label="Routing policy"
          choices={policies}
          value={form.policy}
          onChange={({ target }) => set({ policy: target.value })}
        />
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

interface CountFieldsProps extends Omit<SchedulingFieldsProps, 'onChange'> {
  readonly set: (change: Partial<SchedulingForm>) => void
}

function CountFields({ form, errors, set }: CountFieldsProps) {
  return (
    <div className="grid grid-cols-2 gap-3">
      <TextField
        label="Minimum"
        inputMode="numeric"
        placeholder="0"
        hint="Kept running without requests"
        value={form.min}
        error={errors.min ?? null}
        onChange={({ target }) => set({ min: target.value })}
      />
      <TextField
        label="Maximum"
        inputMode="numeric"
        placeholder="1, or the minimum"
        hint="0 means no limit"
        value={form.max}
        error={errors.max ?? null}
        onChange={({ target }) => set({ max: target.value })}
      />
    </div>
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
      <legend className="mb-1 font-medium">Node labels</legend>
      {rows.map((row, at) => (
        // Rows have no ID and never change their order.
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
        <Button onClick={() => onChange([...rows, { label: '', value: '' }])}>Add label</Button>
      </div>
      <p className="text-soft">
        Separate several values with commas. Use <code>*</code> for any value, <code>!</code> for a missing label, <code>!x</code> for any
        value except x.
      </p>
    </fieldset>
  )
}
