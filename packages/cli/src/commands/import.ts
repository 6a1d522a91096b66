// `muster import localai`: takes over a LocalAI site.
import { type Command, Option } from 'commander'
import { usageError } from '../cli-error.ts'
import type { SitePart } from '../localai/read-site.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt, type Shell } from '../shell.ts'
import { addCommands, type ClientCommand, collect, defineGroup } from './command.ts'

export function importCommands(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'import', summary: 'Take over the models and settings of another system' })
  addCommands(group, shell, [importLocalAi])
}

const importLocalAi: ClientCommand = {
  name: 'localai',
  summary: 'Take over a LocalAI site: galleries, models with their files, scheduling, labels and keys',
  details:
    'DIR is a LocalAI data directory (models, configuration and backends beside each other) or its models directory; URL is a running instance. Prints each part with its result, and everything that is not imported with the reason. A second run changes nothing. Exits with 1 when a part was refused or failed.',
  arguments: [['<source>', 'a directory of this machine, or http(s)://…']],
  options: [
    new Option('--dry-run', 'only print the report'),
    new Option('--replace', 'change models and galleries that exist in another form'),
    new Option(
      '--files <how>',
      'files without a source: upload sends them to nodes; reference names their path, for workers with --model-dir',
    )
      .choices(['upload', 'reference'])
      .default('upload'),
    new Option('--backends <when>', 'install them on all nodes now, or when a model needs them')
      .choices(['install', 'on-demand'])
      .default('on-demand'),
    new Option('--keys <scope>', 'scope of the imported API keys').choices(['inference', 'admin', 'skip']).default('inference'),
    new Option(
      '--only <parts>',
      'galleries, backends, models, scheduling, nodes or keys; with commas, or repeated (default: all)',
    ).argParser(collect),
    new Option('--models-dir <dir>', 'the models directory, when it is not beside the rest (default: SOURCE/models, else SOURCE)'),
    new Option('--env-file <file>', "the variables of LocalAI, as a file of NAME=VALUE lines; this command's own environment wins"),
    new Option('--scheduling <file>', 'rules of scheduling, YAML or JSON (default: $LOCALAI_MODEL_SCHEDULING_CONFIG)'),
    new Option('--api-key-file <file>', 'file that holds a key of the running instance (default: $LOCALAI_API_KEY)'),
    // Defined, so that its use is refused with the reason and the alternative.
    new Option('--api-key <key>').hideHelp(),
  ],
  examples: [
    'muster import localai /srv/localai --dry-run',
    'muster import localai /srv/localai --env-file /srv/localai/.env',
    'LOCALAI_API_KEY=… muster import localai http://localai:8080 --only scheduling,nodes',
  ],
  run: async (call) => {
    const { shell, api, print, option, flag, list, words } = call
    if (option('apiKey') !== undefined)
      throw usageError('--api-key: all users of this machine can read a secret there', 'set LOCALAI_API_KEY, or use --api-key-file')
    const [{ readSite, siteParts }, { importSite }, { countItems, isComplete, renderReport }] = await Promise.all([
      import('../localai/read-site.ts'),
      import('../localai/import-site.ts'),
      import('../localai/report.ts'),
    ])
    const site = await readSite({
      source: words[0] ?? '',
      env: shell.env,
      envFile: option('envFile'),
      modelsDirectory: option('modelsDir'),
      apiKeyFile: option('apiKeyFile'),
      schedulingFile: option('scheduling'),
      only: parseParts(list('only'), siteParts),
    })
    using interrupted = listenForInterrupt()
    const keys = option('keys')
    const report = await importSite(site, {
      api,
      clock: shell.clock,
      screen: print.format === 'json' ? null : shell.terminal.screen,
      showStatus: (text) => (text === null ? shell.terminal.status?.clear() : shell.terminal.status?.show(plainText(text))),
      signal: interrupted.signal,
      isDryRun: flag('dryRun'),
      mayReplace: flag('replace'),
      files: option('files') === 'reference' ? 'reference' : 'upload',
      backends: option('backends') === 'install' ? 'install' : 'on-demand',
      keyScope: keys === 'admin' || keys === 'inference' ? keys : null,
    })
    print.result({ ...report, counts: countItems(report.items) }, () => renderReport(report, print.width))
    if (!isComplete(report)) shell.fail(1)
  },
}

/** Null: all parts. */
function parseParts(words: readonly string[], known: readonly SitePart[]): SitePart[] | null {
  const given = words.flatMap((word) => word.split(',')).filter((word) => word !== '')
  if (given.length === 0) return null
  return given.map((word) => {
    const part = known.find((each) => each === word)
    if (part === undefined) throw usageError(`--only: ${JSON.stringify(plainText(word))} is not one of ${known.join(', ')}`)
    return part
  })
}
