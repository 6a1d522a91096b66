// `muster models apply`: reads the models that a file describes, sends each to the controller, and reports the outcome.
import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { isMap, isNode, isScalar, isSeq, LineCounter, parseAllDocuments } from 'yaml'
import { errorCode, parseJson, errorMessage } from '@muster/host'
import { type ConvertedKeyView, ModelName, modelRoutes, type ModelView, summarizeConversion } from '@muster/protocol'
import { CliError, reportError, usageError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import type { ClientCall } from '../commands/command.ts'
import { asObject } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { bareRevision, shortRevision } from './describe-model.ts'

export interface ApplyInput {
  readonly documents: readonly ModelDocument[]
  readonly file: string
  readonly expected: string | undefined
  /** All documents are LocalAI's, also those that look like Muster's. */
  readonly isLocalAi: boolean
}

export async function applyModels({ api, print, shell }: ClientCall, { documents, file, ...how }: ApplyInput): Promise<void> {
  const all: unknown[] = []
  for (const document of documents) {
    try {
      const applied = await applyDocument(api, document, how)
      all.push(withOutcome(applied))
      if (print.format === 'text') print.line(undefined, () => appliedText(applied))
      const { name, keys } = applied.after
      if (keys !== undefined) print.remark(plainText(`${name} was a LocalAI configuration: ${summarizeConversion(keys)}`))
    } catch (error) {
      if (!(error instanceof CliError) || isAboutAll(error)) throw error
      reportError(error.about(plainText(file)), shell.terminal)
      shell.fail(1)
    }
  }
  if (print.format === 'json') print.result(documents.length === 1 ? all[0] : { models: all }, () => '')
}

const withOutcome = ({ outcome, raw }: ApplyResult): unknown => ({ outcome, ...asObject(raw) })

/** The controller cannot be reached or the key is refused: the next document would fail the same way. */
const isAboutAll = ({ status }: CliError): boolean => status === null || status === 401 || status === 403

type ApplyOutcome = 'created' | 'changed' | 'unchanged'

interface ApplyResult {
  readonly outcome: ApplyOutcome
  readonly before: ModelView | null
  readonly after: ModelView & { readonly keys?: ConvertedKeyView[] | undefined }
  readonly raw: unknown
}

/** `expected`: the revision that the model must still have, or a prefix of it. */
async function applyDocument(
  api: ApiClient,
  document: ModelDocument,
  { expected, isLocalAi }: Pick<ApplyInput, 'expected' | 'isLocalAi'>,
): Promise<ApplyResult> {
  const params = { name: document.name }
  const before = await readModel(api, document)
  const answer = await api.call(modelRoutes.put, {
    params,
    query: isLocalAi ? { from: 'localai' } : {},
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

const minPrefixLength = 7

/** Tables show only a prefix, which people copy. */
function fullRevision(expected: string, before: ModelView | null): string {
  const bare = bareRevision(expected)
  const isPrefix = before !== null && bare.length >= minPrefixLength && bareRevision(before.revision).startsWith(bare)
  return isPrefix ? before.revision : expected
}

function appliedText({ outcome, before, after }: ApplyResult): string {
  const revision = shortRevision(after.revision)
  if (outcome !== 'changed') return plainText(`${after.name} ${outcome} (revision ${revision})`)
  if (before === null || before.revision === after.revision)
    return plainText(`${after.name} changed; its replicas keep running (revision ${revision})`)
  return plainText(`${after.name} changed (revision ${shortRevision(before.revision)} is now ${revision})`)
}

// A file holds YAML with any number of documents, or JSON. The controller validates a document; only its name is read
// here, for the URL. A document is sent with as many empty lines before it as there are lines before it in the file, so
// that the line numbers in the controller's errors are those of the file.

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
    const reason = errorCode(error) === 'ENOENT' ? 'no such file' : errorMessage(error)
    throw new CliError(`cannot read ${plainText(file)}: ${plainText(reason)}`, { exitCode: 2, cause: error })
  }
}

/** Throws when a document is malformed or has no name: then nothing of the file is sent. */
export function parseDocuments(text: string, file: string): ModelDocument[] {
  return readDocuments(text, file).map(({ where, value, ...document }) => ({ ...document, name: parseName(value['name'], where) }))
}

interface FoundDocument extends Omit<ModelDocument, 'name'> {
  /** For errors: the file and the line. */
  readonly where: string
  /** The same as plain values. */
  readonly value: Readonly<Record<string, unknown>>
}

/** The models of a file, also without names: JSON, or YAML documents with one model or a list of models each. */
export function readDocuments(text: string, file: string): FoundDocument[] {
  const json = parseJson(text)
  if (typeof json === 'object' && json !== null && !Array.isArray(json))
    return [{ where: file, type: 'application/json', text, value: { ...json } }]
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines, merge: true })
  const lineOf = (offset: number): string => `${file}:${lines.linePos(offset).line}`
  const found = (Array.isArray(documents) ? documents : []).flatMap((document): FoundDocument[] => {
    const { contents } = document
    const [problem] = document.errors
    if (problem !== undefined) throw usageError(plainText(`${lineOf(problem.pos[0])}: ${firstLine(problem.message)}`))
    // An empty document, as after a `---` at the end.
    if (contents === null || (isScalar(contents) && contents.value === null)) return []
    const models = isSeq(contents) ? contents.items : [contents]
    return models.map((model) => {
      const [start, , end] = (isNode(model) ? model.range : null) ?? contents.range
      const where = lineOf(start)
      if (!isMap(model)) throw usageError(plainText(`${where}: expected a model as keys and values`))
      const { line, col } = lines.linePos(start)
      // An item of a list keeps its indentation, so that its first line fits to the others.
      const before = '\n'.repeat(line - 1) + ' '.repeat(col - 1)
      return { where, type: 'application/yaml', text: before + text.slice(start, end), value: plainValue(model.toJS(document), where) }
    })
  })
  if (found.length === 0) throw usageError(`${plainText(file)} contains no model`)
  return found
}

function plainValue(value: unknown, where: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null) return { ...value }
  throw usageError(plainText(`${where}: expected a model as keys and values`))
}

const firstLine = (message: string): string => message.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? message

/** Names of LocalAI may be numbers, and in any normal form. */
function parseName(value: unknown, where: string): ModelName {
  const parsed = ModelName.safeParse(typeof value === 'number' ? String(value) : typeof value === 'string' ? value.normalize('NFC') : value)
  if (parsed.success) return parsed.data
  throw usageError(
    plainText(
      value === undefined ? `${where}: the model has no name` : `${where}: name: ${parsed.error.issues[0]?.message ?? 'not valid'}`,
    ),
  )
}
