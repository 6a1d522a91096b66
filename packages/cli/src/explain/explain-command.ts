// `muster models explain`: works on this machine alone, without a controller.
import { type Command, Option } from 'commander'
import { stringify } from 'yaml'
import { type ConvertedKeyView, summarizeConversion } from '@muster/protocol'
import { collectOptions, createOptionReader, defineCommand } from '../commands/command.ts'
import { type Column, renderTable } from '../output/table.ts'
import { createPrinter } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { readDocuments, readSource } from '../models/apply-models.ts'
import { type Explanation, explainModel } from './explain-model.ts'

export function addExplain(group: Command, shell: Shell): Command {
  const command = defineCommand(group, {
    name: 'explain',
    summary: 'Show key by key how a model file of LocalAI is understood',
    details:
      'Prints the fate of each key, then the configuration of Muster that comes out of it. Works on this machine, without a controller. Ends with 1 when a key is refused.',
    arguments: [['<file>', 'YAML or JSON, with one model or several; - for standard input']],
    options: [
      new Option('--localai', "take the file as LocalAI's, also without a key that only LocalAI has"),
      new Option('-o, --output <format>', 'json prints keys and configuration').choices(['text', 'json']),
    ],
    examples: ['muster models explain models/qwen3.yaml', 'muster models explain qwen3.yaml -o json | jq .config'],
  })
  return command.action(async () => {
    const { option, flag } = createOptionReader(collectOptions(command))
    const [given = '-'] = command.args
    const text = await readSource(given, () => shell.input.readAll())
    const documents = readDocuments(text, given === '-' ? 'standard input' : given)
    const explained = await Promise.all(documents.map(({ value }) => explainModel(value, { isLocalAi: flag('localai') })))
    const print = createPrinter(shell.terminal, option('output') === 'json' ? 'json' : 'text')
    print.result(explained.length === 1 ? explained[0] : { models: explained }, () =>
      explained.map((each) => renderExplanation(each, print.width)).join('\n\n'),
    )
    if (explained.some(({ problem }) => problem !== null)) shell.fail(1)
  })
}

const columns: readonly Column<ConvertedKeyView>[] = [
  { heading: 'KEY', cell: ({ key }) => key },
  { heading: 'OUTCOME', cell: ({ outcome }) => outcome.replace('_', ' ') },
  { heading: 'BECOMES', cell: ({ to }) => to ?? '' },
  { heading: 'MEANING', cell: ({ message }) => message },
]

function renderExplanation({ name, keys, config, problem }: Explanation, width: number | null): string {
  const table = keys === null ? 'This is a configuration of Muster; it is taken unchanged.' : renderTable(columns, keys, width)
  const summary = keys === null ? [] : [summarizeConversion(keys)]
  return [
    ...(name === null ? [] : [`# ${plainText(name)}`]),
    table,
    ['', ...summary, ...(problem === null ? [] : [`Not valid: ${problem}`]), ''].map(plainText).join('\n'),
    // YAML quotes control characters, but leaves those above ASCII as bytes that a terminal would obey.
    stringify(config, { lineWidth: 0 })
      .trimEnd()
      .replaceAll(/[\u007f-\u009f]/g, (char) => `\\x${char.charCodeAt(0).toString(16)}`),
  ].join('\n')
}
