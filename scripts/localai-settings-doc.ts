// Writes the table of docs/localai-settings.md from the table that the settings themselves use.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { environmentName, type LocalAiName, localAiNames } from '@muster/host'
import { root } from './environment.ts'
import { markdownTable, withGeneratedParts } from './generated-part.ts'

export const localAiSettingsPage = join(root, 'docs', 'localai-settings.md')

export function renderLocalAiSettings(page: string): string {
  const ofOutcome = (outcome: LocalAiName['outcome']): LocalAiName[] => localAiNames.filter((name) => name.outcome === outcome)
  return withGeneratedParts(page, {
    'names that are read': markdownTable(['LocalAI', 'Muster', 'Note'], ofOutcome('read').map(readRow)),
    'names without effect': markdownTable(['LocalAI', 'Instead'], ofOutcome('no_effect').map(otherRow)),
    'names that are not supported': markdownTable(['LocalAI', 'Instead'], ofOutcome('refused').map(otherRow)),
  })
}

const code = (text: string): string => `\`${text}\``
const namesOf = ({ name, olderNames }: LocalAiName): string => [name, ...olderNames].map(code).join(', ')
const readRow = (name: LocalAiName): string[] => [
  namesOf(name),
  name.settings.map(({ flag }) => code(environmentName(flag))).join(', '),
  name.message,
]
const otherRow = (name: LocalAiName): string[] => [namesOf(name), name.message]

if (import.meta.main) await writeFile(localAiSettingsPage, renderLocalAiSettings(await readFile(localAiSettingsPage, 'utf8')))
