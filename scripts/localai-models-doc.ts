// Writes the tables of docs/localai-models.md from the rows that the conversion of LocalAI's model files uses.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { localAiModelKeys, type ModelKey } from '@muster/source'
import { backendAliases } from '../packages/source/src/localai/backend-names.pure.ts'
import { root } from './environment.ts'
import { markdownTable, withGeneratedParts } from './generated-part.ts'

export const localAiModelsPage = join(root, 'docs', 'localai-models.md')

export function renderLocalAiModelsDoc(page: string): string {
  return withGeneratedParts(page, {
    keys: markdownTable(['Key', 'Outcome', 'Becomes', 'Meaning'], localAiModelKeys.map(rowOf)),
    backends: markdownTable(
      ['In a LocalAI file', 'Served by', '`parameters.type`'],
      Object.entries(backendAliases).map(([written, { name, type }]) => [code(written), code(name), type === undefined ? '' : code(type)]),
    ),
  })
}

const rowOf = ({ key, outcome, to, message }: ModelKey): string[] => [
  code(key),
  outcome.replace('_', ' '),
  to === null ? '' : code(to),
  message,
]

const code = (text: string): string => `\`${text}\``

if (import.meta.main) await writeFile(localAiModelsPage, renderLocalAiModelsDoc(await readFile(localAiModelsPage, 'utf8')))
