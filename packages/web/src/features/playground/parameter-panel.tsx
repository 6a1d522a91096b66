// What is told to the model besides the question.
import { Button } from '../../components/button.tsx'
import { TextArea, TextField } from '../../components/field.tsx'
import { describeParameters, noParameters, readParameters, type ParameterForm } from './parameters.ts'

const numbers = [
  { field: 'temperature', label: 'Temperature', hint: '0 gives the likeliest answer, 2 the wildest' },
  { field: 'topP', label: 'Top p', hint: 'only the likeliest words that make up this part' },
  { field: 'maxTokens', label: 'Max tokens', hint: 'ends the answer there' },
  { field: 'seed', label: 'Seed', hint: 'the same one gives the same answer, where the backend can' },
] as const

export function ParameterPanel({ form, onChange }: { readonly form: ParameterForm; readonly onChange: (form: ParameterForm) => void }) {
  const { errors } = readParameters(form)
  const set = (field: keyof ParameterForm) => (event: { readonly target: { readonly value: string } }) =>
    onChange({ ...form, [field]: event.target.value })
  const summary = describeParameters(form)
  return (
    <details className="rounded-md border bg-raised">
      <summary className="px-3 py-2 font-medium">
        Parameters <span className="font-normal text-soft">{summary === '' ? 'as the backend has them' : summary}</span>
      </summary>
      <div className="flex flex-col gap-3 border-t p-3">
        <TextArea label="System prompt" rows={3} value={form.system} onChange={set('system')} />
        <div className="grid grid-cols-2 gap-3">
          {numbers.map(({ field, label, hint }) => (
            <TextField
              key={field}
              label={label}
              title={hint}
              inputMode="decimal"
              autoComplete="off"
              value={form[field]}
              error={errors[field] ?? null}
              onChange={set(field)}
            />
          ))}
        </div>
        <TextArea label="Stop, one per line" rows={2} value={form.stop} error={errors.stop ?? null} onChange={set('stop')} />
        <Button className="self-start" disabled={summary === '' && Object.keys(errors).length === 0} onClick={() => onChange(noParameters)}>
          Leave all to the backend
        </Button>
      </div>
    </details>
  )
}
