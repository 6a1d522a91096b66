// `muster import localai`: takes over a LocalAI site.
import { type Command, Option } from 'commander'
import { readFile } from 'node:fs/promises'
import { errorMessage, type Secret } from '@muster/host'
import { usageError } from '../cli-error.ts'
import type { Site } from '../localai/site.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt, type Shell } from '../shell.ts'
import { addCommands, type ClientCall, type ClientCommand, defineGroup } from './command.ts'

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
    new Option('--scheduling <file>', 'rules of scheduling, YAML or JSON (default: $LOCALAI_MODEL_SCHEDULING_CONFIG)'),
    new Option('--api-key-file <file>', 'file that holds a key of the running instance (default: $LOCALAI_API_KEY)'),
    // Defined, so that its use is refused with the reason and the alternative.
    new Option('--api-key <key>').hideHelp(),
  ],
  examples: [
    'muster import localai /srv/localai --dry-run',
    'muster import localai /srv/localai',
    'LOCALAI_API_KEY=… muster import localai http://localai:8080 --keys admin',
  ],
  run: async (call) => {
    const { shell, api, print, option, flag } = call
    const [{ importSite }, { countItems, isComplete, renderReport }] = await Promise.all([
      import('../localai/import-site.ts'),
      import('../localai/report.ts'),
    ])
    const site = await readSite(call)
    using interrupted = listenForInterrupt()
    const keys = option('keys')
    const report = await importSite(site, {
      api,
      clock: shell.clock,
      screen: null,
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

/** The site of the argument, with the keys and rules of the environment of LocalAI. */
async function readSite(call: ClientCall): Promise<Site> {
  const { shell, words, option } = call
  const [given = ''] = words
  if (option('apiKey') !== undefined)
    throw usageError('--api-key: all users of this machine can read a secret there', 'set LOCALAI_API_KEY, or use --api-key-file')
  const { readDirectory, uniqueKeys } = await import('../localai/read-directory.ts')
  const keys = await readApiKeys(option('apiKeyFile'), shell.env)
  const rules = await readRules(option('scheduling'), shell.env)
  const site = /^https?:\/\//i.test(given) ? await readUrl(given, keys[0] ?? null) : await readDirectory(given)
  const all = uniqueKeys([...site.keys, ...keys].map((key) => key.reveal()))
  return { ...site, keys: all, rules: [...site.rules, ...rules] }
}

async function readUrl(text: string, key: Secret | null): Promise<Site> {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.password !== '')
    throw usageError(`${JSON.stringify(plainText(text))} is not a URL without a password`)
  const { readInstance } = await import('../localai/read-instance.ts')
  return await readInstance({ url, key })
}

async function readApiKeys(file: string | undefined, env: Shell['env']): Promise<Secret[]> {
  const { uniqueKeys } = await import('../localai/read-directory.ts')
  const text = file === undefined ? '' : await readGiven('--api-key-file', file)
  return uniqueKeys([...text.split(/\s+/), ...(env['LOCALAI_API_KEY'] ?? '').split(',')])
}

/** LocalAI reads rules as JSON text, and as a YAML file. JSON is YAML. */
async function readRules(file: string | undefined, env: Shell['env']): Promise<Site['rules']> {
  const { parseRules } = await import('../localai/read-directory.ts')
  const inline = env['LOCALAI_MODEL_SCHEDULING'] ?? ''
  const path = file ?? env['LOCALAI_MODEL_SCHEDULING_CONFIG'] ?? ''
  const rules = inline === '' ? [] : parseRules(inline, 'LOCALAI_MODEL_SCHEDULING')
  if (path === '') return rules
  return [...rules, ...parseRules(await readGiven(file === undefined ? 'LOCALAI_MODEL_SCHEDULING_CONFIG' : '--scheduling', path), path)]
}

async function readGiven(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw usageError(`${option}: cannot read ${plainText(path)}: ${plainText(errorMessage(error))}`)
  }
}
