// Where and how often a model runs, as a form; what a change would mean for its placement is shown while it is typed.
import { modelRoutes, type ModelView, type Scheduling } from '@muster/protocol'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { keepSaved } from './keep-saved.ts'
import { PlacementPreview } from './placement-preview.tsx'
import { SchedulingFields } from './scheduling-fields.tsx'
import { formOf, readForm, type SchedulingForm } from './scheduling-form.ts'
import { UnsavedGuard } from './unsaved-guard.tsx'

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
