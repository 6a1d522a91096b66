// Sends one description of a model, and finds out what that changed.
import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { isMap, isScalar, LineCounter, parseAllDocuments } from 'yaml'
import { errorCode } from '@muster/host'
import { ModelName, modelRoutes, type ModelView } from '@muster/protocol'
import { CliError, usageError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { parseJson } from '../client/explain-failure.ts'
import { plainText } from '../output/text.ts'
import { bareRevision, shortRevision } from './describe-model.ts'

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

// The models that a file describes: YAML with any number of documents, or JSON. What a document means is the
// controller's to judge; here only its name is read, because the address needs it. A document is sent with as many empty
// lines before it as it has lines before it in the file, so that a line that the controller names is a line of the file.

export interface ModelDocument {
  readonly name: ModelName
  readonly type: 'application/json' | 'application/yaml'
  readonly text: string
}

export async function readSource(file: string, readInput: () => Promise<string>): Promise<string> {
  if (file === '-') return readInput()
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'it is not there' : error instanceof Error ? error.message : String(error)
    throw new CliError(`can't read ${plainText(file)}: ${plainText(reason)}`, { exitCode: 2, cause: error })
  }
}

/** Throws when a document can't be read or has no name: then nothing of the file is sent. */
export function parseDocuments(text: string, file: string): ModelDocument[] {
  const json = parseJson(text)
  if (typeof json === 'object' && json !== null && !Array.isArray(json))
    return [{ name: nameIn('name' in json ? json.name : undefined, file), type: 'application/json', text }]
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines })
  const found = (Array.isArray(documents) ? documents : []).flatMap((document): ModelDocument[] => {
    const lineOf = (offset: number): string => `${file}:${lines.linePos(offset).line}`
    const { contents } = document
    const [problem] = document.errors
    if (problem !== undefined) throw usageError(plainText(`${lineOf(problem.pos[0])}: ${firstLine(problem.message)}`))
    // Nothing but comments, or nothing at all: as after a `---` at the end.
    if (contents === null || (isScalar(contents) && contents.value === null)) return []
    const where = lineOf(contents.range[0])
    if (!isMap(contents)) throw usageError(plainText(`${where}: a model is written as keys and values`))
    const [start, , end] = document.range
    const before = lines.linePos(start).line - 1
    const name = nameIn(contents.get('name'), where)
    return [{ name, type: 'application/yaml', text: '\n'.repeat(before) + text.slice(start, end) }]
  })
  if (found.length === 0) throw usageError(`${plainText(file)} describes no model`)
  return found
}

const firstLine = (message: string): string => message.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? message

function nameIn(value: unknown, where: string): ModelName {
  const parsed = ModelName.safeParse(value)
  if (parsed.success) return parsed.data
  throw usageError(
    plainText(
      value === undefined ? `${where}: the model has no name` : `${where}: name: ${parsed.error.issues[0]?.message ?? 'not valid'}`,
    ),
  )
}
