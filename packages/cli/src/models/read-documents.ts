// The models that a file describes: YAML with any number of documents, or JSON. What a document means is the
// controller's to judge; here only its name is read, because the address needs it. A document is sent with as many empty
// lines before it as it has lines before it in the file, so that a line that the controller names is a line of the file.
import { readFile } from 'node:fs/promises'
import { isMap, isScalar, LineCounter, parseAllDocuments } from 'yaml'
import { errorCode } from '@muster/host'
import { ModelName } from '@muster/protocol'
import { CliError, usageError } from '../cli-error.ts'
import { parseJson } from '../client/explain-failure.ts'
import { plainText } from '../output/plain-text.ts'

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
