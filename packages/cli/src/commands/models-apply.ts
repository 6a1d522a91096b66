// `muster models apply`.
import { type Command, Option } from 'commander'
import { CliError, usageError } from '../cli-error.ts'
import { type ApplyResult, appliedText, applyDocument } from '../models/apply-document.ts'
import { type ModelDocument, parseDocuments, readSource } from '../models/read-documents.ts'
import { plainText } from '../output/plain-text.ts'
import { reportError } from '../report-error.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const modelsApply = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'apply',
    summary: 'Create or change models as a file describes them',
    details: 'The file is YAML, with --- between several models, or JSON. One that is refused stops no other.',
    options: [
      new Option('-f, --file <file>', 'the file; - for standard input').makeOptionMandatory(),
      new Option('--if-match <revision>', 'only if the model still has this revision, or one that begins so'),
    ],
    examples: ['muster models apply -f tiny.yaml', 'muster models show tiny -o json | jq .config | muster models apply -f -'],
    run: async (call) => {
      const given = call.option('file') ?? '-'
      const file = given === '-' ? 'standard input' : given
      const documents = parseDocuments(await readSource(given, () => shell.input.readAll()), file)
      const expected = call.option('ifMatch')
      if (expected !== undefined && documents.length > 1) throw usageError('--if-match is about one model, and the file has several')
      await applyAll(call, { documents, file, expected })
    },
  })

interface ApplyInput {
  readonly documents: readonly ModelDocument[]
  readonly file: string
  readonly expected: string | undefined
}

async function applyAll({ api, print, shell }: ClientCall, { documents, file, expected }: ApplyInput): Promise<void> {
  const all: unknown[] = []
  for (const document of documents) {
    try {
      const applied = await applyDocument(api, document, expected)
      all.push(withOutcome(applied))
      if (print.format === 'text') print.line(undefined, () => appliedText(applied))
    } catch (error) {
      if (!(error instanceof CliError) || concernsAll(error)) throw error
      reportError(error.about(plainText(file)), shell.terminal)
      shell.fail(1)
    }
  }
  if (print.format === 'json') print.result(documents.length === 1 ? all[0] : { models: all }, () => '')
}

const withOutcome = ({ outcome, raw }: ApplyResult): unknown => ({ outcome, ...(typeof raw === 'object' && raw !== null ? raw : {}) })

/** No controller, or no right: the next document fares no better. */
const concernsAll = ({ status }: CliError): boolean => status === null || status === 401 || status === 403
