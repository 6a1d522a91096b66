// Sends one description of a model, and finds out what that changed.
import { isDeepStrictEqual } from 'node:util'
import { modelRoutes, type ModelView } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { plainText } from '../output/plain-text.ts'
import { bareRevision, shortRevision } from './describe-model.ts'
import type { ModelDocument } from './read-documents.ts'

export type ApplyOutcome = 'created' | 'changed' | 'unchanged'

export interface ApplyResult {
  readonly outcome: ApplyOutcome
  readonly before: ModelView | null
  readonly after: ModelView
  readonly raw: unknown
}

/** `expected`: the revision that it must still have, or the beginning of it. */
export async function applyDocument(api: ApiClient, document: ModelDocument, expected: string | undefined): Promise<ApplyResult> {
  const params = { name: document.name }
  const before = await readModel(api, document)
  const answer = await api.call(modelRoutes.put, {
    params,
    content: { type: document.type, body: document.text },
    ...(expected === undefined ? {} : { headers: { 'if-match': fullRevision(expected, before) } }),
  })
  const isSame = before !== null && isDeepStrictEqual(before.config, answer.body.config)
  const outcome = answer.status === 201 ? 'created' : isSame ? 'unchanged' : 'changed'
  return { outcome, before, after: answer.body, raw: answer.raw }
}

async function readModel(api: ApiClient, { name }: ModelDocument): Promise<ModelView | null> {
  try {
    return (await api.call(modelRoutes.get, { params: { name } })).body
  } catch (error) {
    if (error instanceof CliError && error.status === 404 && error.code !== null) return null
    throw error
  }
}

const least = 7

/** Tables show the beginning only, and that is what people copy. */
function fullRevision(expected: string, before: ModelView | null): string {
  const bare = bareRevision(expected)
  const isMeant = before !== null && bare.length >= least && bareRevision(before.revision).startsWith(bare)
  return isMeant ? before.revision : expected
}

export function appliedText({ outcome, before, after }: ApplyResult): string {
  const revision = shortRevision(after.revision)
  if (outcome !== 'changed') return plainText(`${after.name} ${outcome} (revision ${revision})`)
  if (before === null || before.revision === after.revision)
    return plainText(`${after.name} changed; what runs stays as it is (revision ${revision})`)
  return plainText(`${after.name} changed (revision ${shortRevision(before.revision)} is now ${revision})`)
}
