// A model as its requests see it: parameters, templates and expressions, read once. And the facts that a load needs from the disk.
import { stat } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import { FleetError } from '@muster/protocol'
import { compilePrompts, compileToolText, hasChatTemplate, mediaMarker, readGgufFile, type ToolText } from '@muster/source'
import type { ReplicaSpec } from '../driver.ts'
import { fieldsOf } from './client.ts'
import { companionsOf, isLlamaLike, type LoadPlan, toLoadOptions } from './load-options.pure.ts'
import { Sampling } from './openai-request.ts'
import type { ChatModel } from './predict-options.pure.ts'

export type ServedModel = ChatModel &
  Readonly<{
    renderCompletion: ((text: string) => string) | null
    replyPrefix: string
    /** The place of a medium in a rendered prompt. */
    mediaMarker: string
    /** Null: the backend reports tool calls as such. */
    readTools: ((text: string, names: ReadonlySet<string>) => ToolText) | null
  }>

/** Throws FleetError `invalid` for a parameter, a template or an expression that cannot be used. */
export function compileModel({ config, model, backend }: ReplicaSpec): ServedModel {
  const parsed = Sampling.safeParse(config.parameters)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw invalid(`parameters.${issue?.path.join('.') ?? ''} of the model ${model}: ${issue?.message ?? 'invalid'}`)
  }
  const systemPrompt = config.parameters['system_prompt']
  const prompts = compilePrompts({ ...config, ...(typeof systemPrompt === 'string' ? { systemPrompt } : {}) })
  return {
    isLlama: isLlamaLike(backend),
    parameters: parsed.data,
    renderChat: prompts.chat,
    renderCompletion: prompts.completion,
    replyPrefix: config.template?.reply_prefix ?? '',
    mediaMarker,
    readTools: prompts.chat === null ? null : compileToolText(config.function ?? {}),
  }
}

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

/** Facts about the machine. */
export type Machine = Readonly<{ threads: number; smallestGpuBytes: number | null }>

/** Throws FleetError `invalid`. */
export async function planLoad(spec: ReplicaSpec, machine: Machine): Promise<LoadPlan> {
  return toLoadOptions(spec, {
    ...machine,
    fields: fieldsOf('ModelOptions'),
    trainedContext: spec.config.context_size === -1 ? await readTrainedContext(spec.modelPath) : null,
    companions: await findCompanions(spec),
    isDelegated: !hasChatTemplate(spec.config),
  })
}

async function readTrainedContext(path: string | null): Promise<number | null> {
  if (path === null) return null
  const found = await readGgufFile(path).catch(() => null)
  return (found?.kind === 'facts' ? found.facts.context : undefined) || null
}

async function findCompanions(spec: ReplicaSpec): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const name of companionsOf(spec)) {
    const path = join(spec.modelDirectory, normalize(name))
    if (path.startsWith(`${spec.modelDirectory}/`) && (await stat(path).catch(() => null)) !== null) found.set(name, path)
  }
  return found
}
