// Where and how often a model runs, as a form; what a change would mean for its placement is shown while it is typed.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { modelRoutes, type ModelView, type Scheduling } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { SelectField, TextField } from '../../components/field.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { UnsavedGuard } from './config-editor.tsx'
import { keepSaved } from './model-actions.tsx'
import { PlacementPreview } from './placement-tab.tsx'
import { formOf, readForm, type SchedulingErrors, type SchedulingForm, type SelectorRow } from './scheduling-form.pure.ts'

export function SchedulingTab({ model }: { readonly model: ModelView }) {
  const [typed, setTyped] = useState<SchedulingForm | null>(null)
  const saved = formOf(model.config.scheduling)
  const form = typed ?? saved
  const read = readForm(form)
  const isDirty = typed !== null && JSON.stringify(typed) !== JSON.stringify(saved)
  // What was typed while it was saved stays.
  const save = useSaveScheduling(model, (sent) => setTyped((now) => (now === sent ? null : now)))
  return (
    <div className="grid gap-6 lg:grid-cols-2">
      <UnsavedGuard isDirty={isDirty && !save.isPending} what={`the scheduling of ${model.name}`} />
      <form
        aria-label="Scheduling"
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (read.isValid && isDirty) save.mutate({ form, scheduling: read.scheduling })
        }}
      >
        <SchedulingFields form={form} errors={read.isValid ? { selector: {} } : read.errors} onChange={setTyped} />
        {save.error !== null && <Failed title="It was not saved." error={save.error} />}
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="primary" isBusy={save.isPending} disabled={!read.isValid || !isDirty}>
            Save scheduling
          </Button>
          <Button disabled={!isDirty} onClick={() => setTyped(null)}>
            Discard changes
          </Button>
        </div>
        <p className="text-soft">No process is started anew for it: replicas are added beside those that run, or drained.</p>
      </form>
      <PlacementPreview name={model.name} scheduling={read.isValid && isDirty ? read.scheduling : null} isValid={read.isValid} />
    </div>
  )
}

function useSaveScheduling({ name }: ModelView, onSaved: (sent: SchedulingForm) => void) {
  const queries = useQueryClient()
  const tell = useNotices()
  return useMutation({
    mutationFn: ({ scheduling }: { form: SchedulingForm; scheduling: Scheduling }) =>
      call(modelRoutes.scheduling, { params: { name }, body: scheduling }),
    onSuccess(saved, { form }) {
      keepSaved(queries, saved)
      onSaved(form)
      tell('good', `The scheduling of ${name} is saved.`)
    },
  })
}

interface SchedulingFieldsProps {
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

function SchedulingFields({ form, errors, onChange }: SchedulingFieldsProps) {
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
