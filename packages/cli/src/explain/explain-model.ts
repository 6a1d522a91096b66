// Explains a model configuration on this machine: the fate of each key of a LocalAI file, and the configuration of Muster that
// comes out of it.
import { ModelConfig } from '@muster/protocol'
import type { ConvertedKey } from '@muster/source'

export interface Explanation {
  readonly name: string | null
  /** Null: the configuration is one of Muster and stays unchanged. */
  readonly keys: readonly ConvertedKey[] | null
  readonly config: Readonly<Record<string, unknown>>
  /** Null: the configuration is valid, and no key is refused. */
  readonly problem: string | null
}

export async function explainModel(value: Readonly<Record<string, unknown>>, { isLocalAi }: { isLocalAi: boolean }): Promise<Explanation> {
  const { convertModel, isLocalAiModel } = await import('@muster/source')
  const { config, keys } = isLocalAi || isLocalAiModel(value) ? convertModel(value) : { config: value, keys: null }
  return { name: typeof config['name'] === 'string' ? config['name'] : null, keys, config, problem: findProblem(config, keys ?? []) }
}

function findProblem(config: Explanation['config'], keys: readonly ConvertedKey[]): string | null {
  const refused = keys.filter(({ outcome }) => outcome === 'refused').map(({ key }) => key)
  if (refused.length > 0) return `refused: ${refused.join(', ')}`
  const issue = ModelConfig.safeParse({ name: 'model', ...config }).error?.issues[0]
  if (issue === undefined) return null
  return `${issue.path.map(String).join('.') || 'the configuration'}: ${issue.message}`
}
