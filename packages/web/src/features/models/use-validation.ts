// What the server says of a configuration while somebody types it: asked when the typing pauses, called off when it goes on.
import { modelRoutes, type ConfigProblem, type ModelConfig, type ModelName } from '@muster/protocol'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { keys } from '../../api/keys.ts'
import { useSettled } from '../../components/use-settled.ts'

export type Validation =
  | { readonly state: 'checking'; readonly problem: ConfigProblem | null }
  | { readonly state: 'unknown'; readonly problem: null; readonly error: Error }
  | { readonly state: 'invalid'; readonly problem: ConfigProblem }
  | { readonly state: 'valid'; readonly problem: null; readonly revision: string; readonly config: ModelConfig }

/** `name`: of the model that is edited; null: the text says it. */
export function useValidation(text: string, name: ModelName | null): Validation {
  const settled = useSettled(text)
  const asked = useQuery({
    queryKey: keys.validation(name, settled),
    queryFn: ({ signal }) =>
      call(modelRoutes.validate, {
        query: name === null ? {} : { name },
        content: { type: 'application/yaml', body: settled },
        signal,
      }),
    placeholderData: keepPreviousData,
    gcTime: 0,
  })
  const problem = asked.data?.valid === false ? (asked.data.problems[0] ?? { message: 'it is not valid' }) : null
  // It is asked again until it is answered; meanwhile the reason is no secret.
  const error = asked.error ?? asked.failureReason
  if (error !== null) return { state: 'unknown', problem: null, error }
  if (settled !== text || asked.isPlaceholderData || asked.data === undefined) return { state: 'checking', problem }
  return asked.data.valid
    ? { state: 'valid', problem: null, revision: asked.data.revision, config: asked.data.config }
    : { state: 'invalid', problem: problem ?? { message: 'it is not valid' } }
}
