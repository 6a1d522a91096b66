// `muster models …`: the models, their configuration and their replicas.
import { type Command, Option } from 'commander'
import { basename } from 'node:path'
import { newId, parseJson } from '@muster/host'
import {
  formatBytes,
  formatReplicaMemory,
  ModelFileName,
  type ModelInstallPreview,
  type ModelName,
  modelRoutes,
  type NodeId,
  type OperationId,
} from '@muster/protocol'
import type { z } from 'zod'
import { fetchNode, fetchNodes, modelArgument, parseModelName, parseSelectorOption, selectorHelp } from '../arguments.ts'
import { leftOutRemark } from '../backends/describe-backend.ts'
import { CliError, usageError } from '../cli-error.ts'
import { addExplain } from '../explain/explain-command.ts'
import { applyModels, parseDocuments, readSource } from '../models/apply-models.ts'
import {
  evictionText,
  failureText,
  loadingText,
  modelColumns,
  offeredModelColumns,
  placementColumns,
  renderModel,
  schedulingLines,
} from '../models/describe-model.ts'
import { showLogs } from '../models/model-logs.ts'
import { parseReplicaChange, scaleScheduling } from '../models/scale.ts'
import { openUpload } from '../models/upload.ts'
import { followMode, followOptions, followStarted } from '../operations/follow-started.ts'
import { renderFields, renderTable } from '../output/table.ts'
import { asObject } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { type Shell, listenForInterrupt } from '../shell.ts'
import { addCommands, type ClientCall, type ClientCommand, collect, defineGroup } from './command.ts'

export function models(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'models', summary: 'Configure models, load and unload them, and see where they run' })
  const reading = [modelsLs, modelsShow, modelsWhy, modelsLogs, modelsGallery]
  const changing = [modelsInstall, modelsApply, modelsRm, modelsLoad, modelsUnload, modelsPrefetch, modelsScale, modelsUpload]
  addCommands(group, shell, [...reading, ...changing])
  addExplain(group, shell)
}

const modelsLs: ClientCommand = {
  name: 'ls',
  summary: 'List the models, and how many of their replicas are ready',
  run: async ({ shell, api, print }) => {
    const { raw, body } = await api.call(modelRoutes.list)
    if (print.format === 'text' && body.models.length === 0)
      return print.remark('no models yet; `muster models gallery` lists the available ones, `muster models apply -f FILE` adds your own')
    print.result(raw, () => renderTable(modelColumns(shell.clock), body.models, print.width))
    if (body.models.some((model) => model.failure !== null))
      print.remark('`muster models why NAME` shows where a model can run, and why not elsewhere')
  },
}

const modelsShow: ClientCommand = {
  name: 'show',
  summary: 'Show the details of a model, and its replicas',
  arguments: [modelArgument],
  examples: ['muster models show tiny', 'muster models show tiny -o json'],
  run: async ({ shell, api, print, words }) => {
    const params = { name: parseModelName(words[0]) }
    const model = await api.call(modelRoutes.get, { params })
    const replicas = await api.call(modelRoutes.replicas, { params })
    print.result({ ...asObject(model.raw), ...asObject(replicas.raw) }, () =>
      renderModel({ model: model.body, replicas: replicas.body.replicas }, { now: shell.clock.now(), width: print.width }),
    )
  },
}

const modelsWhy: ClientCommand = {
  name: 'why',
  summary: 'Show where a model can run and why not elsewhere, the progress of its load, and its failure',
  details:
    'Nodes that fit have a score: the highest one is chosen. MEMORY is what a replica would book there, in RAM or on GPUs. All others show the reason that excludes them. When no node fits, replicas of other models may be evicted.',
  arguments: [modelArgument],
  examples: ['muster models why tiny'],
  run: async ({ shell, api, print, words }) => {
    const params = { name: parseModelName(words[0]) }
    const status = await api.call(modelRoutes.loadStatus, { params })
    const placement = await api.call(modelRoutes.placement, { params })
    const nodes = placement.body.nodes.toSorted((a, b) => Number(b.eligible) - Number(a.eligible) || b.score - a.score)
    print.result({ load_status: status.raw, placement: placement.raw }, () => {
      const fields = renderFields([
        ['Model', params.name],
        ['State', loadingText(status.body)],
        ['Failure', failureText(status.body.failure, shell.clock.now())],
        ...(placement.body.memory === undefined ? [] : [['Memory', formatReplicaMemory(placement.body.memory)] as const]),
      ])
      if (nodes.length === 0) return `${fields}\n\nThere are no nodes.`
      const table = renderTable(placementColumns, nodes, print.width)
      return [fields, table, ...evictionText(placement.body.eviction ?? null)].join('\n\n')
    })
  },
}

const modelsGallery: ClientCommand = {
  name: 'gallery',
  summary: 'List the models that the galleries offer',
  run: async ({ api, print }) => {
    const { raw, body } = await api.call(modelRoutes.gallery)
    if (print.format === 'json' || body.models.length > 0)
      print.result(raw, () => renderTable(offeredModelColumns, body.models, print.width))
    else print.remark('no models are offered; `muster galleries add NAME URL --kind model` adds a gallery')
    for (const { gallery, message } of body.problems) print.remark(plainText(`cannot read gallery ${gallery}: ${message}`))
    for (const left of body.left_out) print.remark(plainText(leftOutRemark(left)))
  },
}

type Submit = (call: ClientCall, model: ModelName) => Promise<{ raw: unknown; body: { operation_id: OperationId } }>

/** Submits an operation on the model of the first argument, and follows it. */
function startOperation(submit: Submit): ClientCommand['run'] {
  return async (call) => {
    const mode = followMode(call)
    const { raw, body } = await submit(call, parseModelName(call.words[0]))
    await followStarted(call, mode, { raw, ids: [body.operation_id] })
  }
}

const modelsInstall: ClientCommand = {
  name: 'install',
  summary: 'Install a model of a gallery: its configuration and its files',
  details: 'If the entry has several builds, the one that suits the nodes is taken; --dry-run shows which and why.',
  arguments: [['<name>', 'as `muster models gallery` shows it, or GALLERY@NAME for one gallery']],
  options: [
    new Option('--name <name>', 'the name of the model here'),
    new Option('--variant <name>', 'exactly this build'),
    new Option('--overrides <json>', 'keys and values merged over the configuration of the entry'),
    new Option('--dry-run', 'show the resulting configuration, and change nothing'),
    ...followOptions(),
  ],
  examples: [
    'muster models install tiny',
    'muster models install internal@tiny',
    'muster models install qwen3-8b --name assistant --dry-run',
    `muster models install qwen3-8b --overrides '{"context_size": 16384}'`,
  ],
  run: async (call) => {
    const mode = followMode(call)
    const { raw, body } = await call.api.call(modelRoutes.install, { body: installBody(call), idempotencyKey: newId() })
    if ('operation_id' in body) return await followStarted(call, mode, { raw, ids: [body.operation_id] })
    call.print.result(raw, () => previewText(body))
  },
}

type InstallBody = z.infer<NonNullable<typeof modelRoutes.install.body>>

function installBody({ words: [model], option, flag }: ClientCall): InstallBody {
  const text = option('overrides')
  const overrides = text === undefined ? undefined : parseJson(text)
  if (text !== undefined && overrides === undefined)
    throw usageError('--overrides is not JSON; give a mapping such as {"context_size": 4096}')
  const given = { model, name: option('name'), variant: option('variant'), overrides, ...(flag('dryRun') ? { dry_run: true } : {}) }
  const parsed = modelRoutes.install.body?.safeParse(given)
  if (parsed?.success === true) return parsed.data
  const [issue] = parsed?.error.issues ?? []
  throw usageError(`${issue?.path[0] === 'model' ? 'name' : `--${String(issue?.path[0] ?? 'name')}`}: ${issue?.message ?? 'not valid'}`)
}

function previewText({ config, keys, variant }: ModelInstallPreview): string {
  const lost = keys.filter(({ outcome }) => outcome === 'no_effect').map(({ key, message }) => `${key}: ${message}`)
  const builds = variant === null ? [] : variant.all.map(({ name, reason }) => `${name === variant.chosen ? '* ' : '  '}${name}: ${reason}`)
  return [
    plainText(`${config.name}, backend ${config.backend}, ${config.files.length} ${config.files.length === 1 ? 'file' : 'files'}`),
    ...(builds.length === 0 ? [] : ['', 'Variants:', ...builds.map(plainText)]),
    ...(lost.length === 0 ? [] : ['', 'Without effect:', ...lost.map((line) => `  ${plainText(line)}`)]),
    '',
    JSON.stringify(config, null, 2),
  ].join('\n')
}

const modelsLoad: ClientCommand = {
  name: 'load',
  summary: 'Load a model: at least one replica, or its minimum',
  details:
    'Installs its backend where it is missing, fetches its files and starts it. A failed load is retried at once. With --node, a replica is loaded on that node, also if the model was unloaded there.',
  arguments: [modelArgument],
  options: [nodeOption('load a replica on this node, by id or unique name'), ...followOptions()],
  examples: ['muster models load tiny', 'muster models load tiny --wait=30m', 'muster models load tiny --node gpu-1'],
  run: startOperation(async (call, name) =>
    call.api.call(modelRoutes.load, { params: { name }, body: await bodyOnNode(call), idempotencyKey: newId() }),
  ),
}

const modelsUnload: ClientCommand = {
  name: 'unload',
  summary: 'Stop all replicas of a model once their requests are answered',
  details:
    'The model stays unloaded, despite its minimum and across restarts, until the next load, request or change of its scheduling. With --node, only that node is concerned: no replica starts there until the next load with --node, or a change of the scheduling.',
  arguments: [modelArgument],
  options: [nodeOption('only on this node, by id or unique name'), ...followOptions()],
  examples: ['muster models unload tiny', 'muster models unload tiny --node gpu-1'],
  run: startOperation(async (call, name) =>
    call.api.call(modelRoutes.unload, { params: { name }, body: await bodyOnNode(call), idempotencyKey: newId() }),
  ),
}

const modelsRm: ClientCommand = {
  name: 'rm',
  summary: 'Delete a model: its configuration at once, then its replicas and files on all nodes',
  details:
    'Nodes that are away delete its files when they are back. Its backend stays. With --node, the model stays too: only its replicas and files on that node are removed.',
  arguments: [modelArgument],
  options: [nodeOption('only its replicas and files on this node, by id or unique name'), ...followOptions()],
  examples: ['muster models rm tiny', 'muster models rm tiny --node gpu-1'],
  run: startOperation(async (call, name) => {
    const { node_id: node } = await bodyOnNode(call)
    return await call.api.call(modelRoutes.remove, { params: { name }, query: { node }, idempotencyKey: newId() })
  }),
}

const modelsPrefetch: ClientCommand = {
  name: 'prefetch',
  summary: 'Fetch the files of a model to nodes, without starting it',
  details: 'Without --node and --selector: to all nodes that the model may run on. Nodes that are away fetch them when they are back.',
  arguments: [modelArgument],
  options: [
    nodeOption('to this node, by id or unique name; may be repeated').argParser(collect),
    new Option('--selector <labels>', `to nodes with these labels: ${selectorHelp}`),
    ...followOptions(),
  ],
  examples: [
    'muster models prefetch tiny',
    'muster models prefetch tiny --node gpu-1 --node gpu-2',
    'muster models prefetch tiny --selector rack=b2',
  ],
  run: startOperation(async ({ api, list, option }, name) => {
    const [names, selector] = [list('node'), option('selector')]
    if (selector !== undefined && names.length > 0) throw usageError('give --node or --selector, not both')
    const nodes = names.length === 0 ? undefined : [...new Set((await fetchNodes(api, names)).map(({ id }) => id))]
    const body = { nodes, selector: selector === undefined ? undefined : parseSelectorOption(selector) }
    return await api.call(modelRoutes.prefetch, { params: { name }, body, idempotencyKey: newId() })
  }),
}

function nodeOption(meaning: string): Option {
  return new Option('--node <node>', meaning)
}

async function bodyOnNode({ api, option }: ClientCall): Promise<{ node_id?: NodeId }> {
  const wanted = option('node')
  return wanted === undefined ? {} : { node_id: (await fetchNode(api, wanted)).id }
}

const modelsUpload: ClientCommand = {
  name: 'upload',
  summary: 'Send a file of a model to the nodes',
  details: 'For files that no node can download. Add the printed Uri under `files` of the model.',
  arguments: [modelArgument, ['<file>', 'on this machine']],
  options: [new Option('--as <filename>', 'its name in the folder of the model (default: the name of the local file)')],
  examples: ['muster models upload tiny ./tiny.gguf'],
  run: async ({ shell, api, print, option, words: [model, file = ''] }) => {
    const params = { name: parseModelName(model), filename: parseFileName(option('as') ?? basename(file)) }
    using interrupted = listenForInterrupt()
    const { signal } = interrupted
    using upload = await openUpload(file, { screen: print.format === 'json' ? null : shell.terminal.screen, clock: shell.clock })
    try {
      const { raw, body } = await api.call(modelRoutes.upload, { params, signal, content: upload.content })
      upload[Symbol.dispose]()
      print.result(raw, () =>
        renderFields([
          ['File', body.filename],
          ['Size', formatBytes(body.size)],
          ['Uri', `upload:${body.digest}`],
          ['Nodes', body.nodes.join(', ')],
        ]),
      )
    } catch (error) {
      if (signal.aborted) throw new CliError('stopped: the file was not sent completely')
      throw error
    }
  },
}

function parseFileName(text: string): ModelFileName {
  const parsed = ModelFileName.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(text))} is not a file name: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}

const modelsApply: ClientCommand = {
  name: 'apply',
  summary: 'Create or change the models that a file describes',
  details:
    'The file is YAML, with --- between several models, or JSON. A model file of LocalAI is converted; `muster models explain FILE` shows how. A refused model does not stop the others.',
  options: [
    new Option('-f, --file <file>', 'the file; - for standard input').makeOptionMandatory(),
    new Option('--if-match <revision>', 'only if the model still has this revision (a prefix is enough)'),
    new Option('--localai', "take the file as LocalAI's, also without a key that only LocalAI has"),
  ],
  examples: ['muster models apply -f tiny.yaml', 'muster models show tiny -o json | jq .config | muster models apply -f -'],
  run: async (call) => {
    const given = call.option('file') ?? '-'
    const file = given === '-' ? 'standard input' : given
    const documents = parseDocuments(await readSource(given, () => call.shell.input.readAll()), file)
    const expected = call.option('ifMatch')
    if (expected !== undefined && documents.length > 1) throw usageError('--if-match needs a file with one model; this one has several')
    await applyModels(call, { documents, file, expected, isLocalAi: call.flag('localai') })
  },
}

const modelsScale: ClientCommand = {
  name: 'scale',
  summary: 'Change how many replicas a model has',
  details:
    'Between MIN and MAX, the number follows the load. With a minimum of 0, the last replica ends after some time without requests. The rest of the scheduling stays.',
  arguments: [modelArgument, ['[replicas]', 'a number; MIN..MAX, or MIN.. for no limit; or all']],
  options: [
    new Option('--min <number>', 'at least so many, also without requests'),
    new Option('--max <number>', 'at most so many; 0 for no limit'),
    new Option('--all', 'one on every node that its selector matches, instead of two numbers'),
  ],
  examples: [
    'muster models scale tiny 2',
    'muster models scale tiny 1..4',
    'muster models scale tiny all',
    'muster models scale tiny --max 4',
  ],
  run: async (call) => {
    const { api, print, words } = call
    const change = parseReplicaChange(call)
    const params = { name: parseModelName(words[0]) }
    const { body: model } = await api.call(modelRoutes.get, { params })
    const { raw, body } = await api.call(modelRoutes.scheduling, { params, body: scaleScheduling(model.config.scheduling, change) })
    print.result(raw, () => plainText(`${body.name}: ${schedulingLines(body.config.scheduling).join('; ')}`))
  },
}

const modelsLogs: ClientCommand = {
  name: 'logs',
  summary: 'Show the output of the processes of a model',
  details: 'With several nodes, each line begins with the name of its node. With -o json, each line is an object.',
  arguments: [modelArgument],
  options: [new Option('--node <node>', 'only on this node, by id or unique name'), new Option('-f, --follow', 'follow until Ctrl-C')],
  examples: ['muster models logs tiny', 'muster models logs tiny --node gpu-1 -f'],
  run: async (call) => {
    await showLogs(call, parseModelName(call.words[0]))
  },
}
