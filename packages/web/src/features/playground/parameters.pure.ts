// Request parameters as form fields. Empty fields are not sent, so the backend's defaults apply.
import { z } from 'zod'

export const ParameterForm = z.object({
  system: z.string(),
  temperature: z.string(),
  topP: z.string(),
  maxTokens: z.string(),
  seed: z.string(),
  /** One per line. */
  stop: z.string(),
})
export type ParameterForm = z.infer<typeof ParameterForm>

export const noParameters: ParameterForm = { system: '', temperature: '', topP: '', maxTokens: '', seed: '', stop: '' }

export interface Parameters {
  readonly temperature?: number
  readonly top_p?: number
  readonly max_tokens?: number
  readonly seed?: number
  readonly stop?: readonly string[]
}
export type ParameterErrors = Partial<Record<keyof ParameterForm, string>>

const integer = { pattern: /^[+-]?\d+$/, read: Number }
const decimal = { pattern: /^[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)$/, read: (text: string) => Number(text.replace(',', '.')) }
const rules = [
  { field: 'temperature', name: 'temperature', kind: decimal, min: 0, max: 2, error: 'Enter a number from 0 to 2' },
  { field: 'topP', name: 'top_p', kind: decimal, min: 0, max: 1, error: 'Enter a number from 0 to 1' },
  { field: 'maxTokens', name: 'max_tokens', kind: integer, min: 1, max: 1_000_000, error: 'Enter a whole number of at least 1' },
  { field: 'seed', name: 'seed', kind: integer, min: -(2 ** 53) + 1, max: 2 ** 53 - 1, error: 'Enter a whole number' },
] as const

const maxStops = 4

export function readParameters(form: ParameterForm): { readonly parameters: Parameters; readonly errors: ParameterErrors } {
  const errors: ParameterErrors = {}
  const numbers: Partial<Record<(typeof rules)[number]['name'], number>> = {}
  for (const { field, name, kind, min, max, error } of rules) {
    const text = form[field].trim()
    if (text === '') continue
    const value = kind.pattern.test(text) ? kind.read(text) : NaN
    if (value >= min && value <= max) numbers[name] = value
    else errors[field] = error
  }
  const stop = form.stop.split('\n').filter((line) => line !== '')
  if (stop.length > maxStops) errors.stop = `At most ${maxStops} lines`
  return { parameters: { ...numbers, ...(stop.length > 0 && stop.length <= maxStops ? { stop } : {}) }, errors }
}

/** `temperature 0, seed 7`: the summary of the closed panel. */
export function describeParameters(form: ParameterForm): string {
  const { parameters } = readParameters(form)
  const set = rules.flatMap(({ name }) => (parameters[name] === undefined ? [] : [`${name} ${parameters[name]}`]))
  const stops = parameters.stop === undefined ? [] : [`stop ×${parameters.stop.length}`]
  return [...(form.system.trim() === '' ? [] : ['system prompt']), ...set, ...stops].join(', ')
}
