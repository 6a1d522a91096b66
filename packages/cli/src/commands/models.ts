// `muster models …`: what is served, how, and where.
import { type Command, Option } from 'commander'
import { basename } from 'node:path'
import { newId } from '@muster/host'
import { ModelFileName, type ModelName, modelRoutes, type NodeId, nodeRoutes, Scheduling } from '@muster/protocol'
import { fetchNode, modelArgument, parseModelName } from '../arguments.ts'
import { CliError, reportError, usageError } from '../cli-error.ts'
import { appliedText, applyDocument, type ApplyResult, type ModelDocument, parseDocuments, readSource } from '../models/apply-models.ts'
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
import { logLines } from '../models/model-logs.ts'
import { openUpload } from '../models/upload.ts'
import { followMode, followOptions, followStarted } from '../operations/follow-started.ts'
import { renderFields, renderTable } from '../output/table.ts'
import { asObject } from '../output/terminal.ts'
import { formatBytes, plainText } from '../output/text.ts'
import { type Shell, untilInterrupted } from '../shell.ts'
import { type ClientCall, clientCommand, defineGroup } from './command.ts'

export function models(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'models', summary: 'Say what is to be served, load and unload it, and see where it runs' })
  const looking = [modelsLs, modelsShow, modelsWhy, modelsLogs, modelsGallery]
  const changing = [modelsInstall, modelsApply, modelsRm, modelsLoad, modelsUnload, modelsScale, modelsUpload]
  for (const define of [...looking, ...changing]) define(group, shell)
}

// `muster models ls`.

const modelsLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List the models, and how many of their replicas are ready',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(modelRoutes.list)
      if (print.format === 'text' && body.models.length === 0)
        return print.remark('no models yet: `muster models gallery` shows what is offered, `muster models apply -f FILE` adds your own')
      print.result(raw, () => renderTable(modelColumns(shell.clock), body.models, print.width))
      if (body.models.some((model) => model.failure !== null)) print.remark('`muster models why NAME` says where it could run, and why not')
    },
  })

// `muster models show`.

const modelsShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show all that is known of one model, and its replicas',
    arguments: [modelArgument],
    examples: ['muster models show tiny', 'muster models show tiny -o json'],
    run: async ({ api, print, words }) => {
      const params = { name: parseModelName(words[0]) }
      const model = await api.call(modelRoutes.get, { params })
      const replicas = await api.call(modelRoutes.replicas, { params })
      print.result({ ...asObject(model.raw), ...asObject(replicas.raw) }, () =>
        renderModel({ model: model.body, replicas: replicas.body.replicas }, { now: shell.clock.now(), width: print.width }),
      )
    },
  })

// `muster models why`.

const modelsWhy = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'why',
    summary: 'Say where a model could run and why not elsewhere, how far its load is, and what failed',
    details:
      'Nodes that it fits have a score: the highest is chosen. All others have the reason that excludes them. When it fits none, replicas of other models may have to make room.',
    arguments: [modelArgument],
    examples: ['muster models why tiny'],
    run: async ({ api, print, words }) => {
      const params = { name: parseModelName(words[0]) }
      const status = await api.call(modelRoutes.loadStatus, { params })
      const placement = await api.call(modelRoutes.placement, { params })
      const nodes = placement.body.nodes.toSorted((a, b) => Number(b.eligible) - Number(a.eligible) || b.score - a.score)
      print.result({ load_status: status.raw, placement: placement.raw }, () => {
        const fields = renderFields([
          ['Model', params.name],
          ['State', loadingText(status.body)],
          ['Failure', failureText(status.body.failure, shell.clock.now())],
        ])
        if (nodes.length === 0) return `${fields}\n\nThere is no node.`
        const table = renderTable(placementColumns, nodes, print.width)
        return [fields, table, ...evictionText(placement.body.eviction ?? null)].join('\n\n')
      })
    },
  })

// `muster models gallery`.

const modelsGallery = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'gallery',
    summary: 'List the models that the galleries offer',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(modelRoutes.gallery)
      if (print.format === 'json' || body.models.length > 0)
        print.result(raw, () => renderTable(offeredModelColumns, body.models, print.width))
      else print.remark('nothing is offered: `muster galleries add NAME URL --kind model` adds a gallery')
      for (const { gallery, message } of body.problems) print.remark(plainText(`gallery ${gallery} can't be read: ${message}`))
    },
  })

// `muster models install`.

const modelsInstall = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'install',
    summary: 'Take a model from a gallery: its configuration and its files',
    arguments: [['<name>', 'as `muster models gallery` shows it']],
    options: followOptions(),
    examples: ['muster models install tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const body = { model: parseModelName(call.words[0]) }
      const answer = await call.api.call(modelRoutes.install, { body, idempotencyKey: newId() })
      await followStarted(call, mode, { raw: answer.raw, ids: [answer.body.operation_id] })
    },
  })

// `muster models load`.

const modelsLoad = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'load',
    summary: 'Have a model ready: at least one replica, or its minimum',
    details: 'Installs its backend where it is missing, fetches its files and starts it. What failed is tried again at once.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models load tiny', 'muster models load tiny --wait=30m'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.load, { params, body: {}, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })

// `muster models unload`.

const modelsUnload = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'unload',
    summary: 'Stop all replicas of a model once their requests are answered',
    details: 'It stays unloaded, also against its minimum and through restarts, until the next load, request or change of its scheduling.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models unload tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.unload, { params, body: {}, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })

// `muster models rm`.

const modelsRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Delete a model: its configuration now, its replicas and files everywhere',
    details: 'Nodes that are away delete its files when they are back. Its backend stays.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models rm tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.remove, { params, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })

// `muster models upload`.

const modelsUpload = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'upload',
    summary: 'Send a file of a model to the nodes',
    details: 'For files that no node can fetch by itself. What is printed as Uri belongs under `files` of the model.',
    arguments: [modelArgument, ['<file>', 'on this machine']],
    options: [new Option('--as <filename>', 'its name in the folder of the model (default: the name it has here)')],
    examples: ['muster models upload tiny ./tiny.gguf'],
    run: async ({ api, print, option, words: [model, file = ''] }) => {
      const params = { name: parseModelName(model), filename: parseFileName(option('as') ?? basename(file)) }
      using interrupted = untilInterrupted()
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
        if (signal.aborted) throw new CliError('stopped; the file was not sent to its end')
        throw error
      }
    },
  })

function parseFileName(text: string): ModelFileName {
  const parsed = ModelFileName.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(text))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}

// `muster models apply`.

const modelsApply = (parent: Command, shell: Shell): Command =>
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

// `muster models scale`.

const modelsScale = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'scale',
    summary: 'Change how many replicas a model has',
    details:
      'Between the two numbers the load decides. With a minimum of 0 the last replica goes when nobody has asked for a while. The rest of its scheduling stays as it is.',
    arguments: [modelArgument, ['[replicas]', 'a number; MIN..MAX, or MIN.. for no limit; or all']],
    options: [
      new Option('--min <number>', 'at least so many, also when nobody asks'),
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
  })

type ReplicaChange = Pick<Scheduling, 'replicas' | 'min_replicas' | 'max_replicas'>

const usage = 'give a number of replicas, MIN..MAX or all; or --min, --max or both, or --all'

function parseReplicaChange({ words: [, given], option, flag }: ClientCall): ReplicaChange {
  const min = parseCount('--min', option('min'))
  const max = parseCount('--max', option('max'))
  const hasNumbers = min !== undefined || max !== undefined
  if ([given !== undefined, flag('all'), hasNumbers].filter(Boolean).length !== 1) throw usageError(`${usage}, and not two of them`)
  if (flag('all') || given === 'all') return { replicas: 'all' }
  if (given !== undefined) return parseRange(given)
  return { ...(min === undefined ? {} : { min_replicas: min }), ...(max === undefined ? {} : { max_replicas: max }) }
}

/** `3`, `1..4`, `1..`. */
function parseRange(text: string): ReplicaChange {
  const [first = '', last, ...more] = text.split('..')
  if (more.length > 0) throw usageError(usage)
  const min = parseCount('replicas', first) ?? 0
  const max = last === undefined ? min : last === '' ? 0 : parseCount('replicas', last)
  if (max === 0 && last !== '')
    throw usageError('none is no number to scale to: `muster models unload` stops all, 0..1 starts one on demand')
  return { min_replicas: min, ...(max === undefined ? {} : { max_replicas: max }) }
}

function parseCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,4}$/.test(text) || Number(text) > 1024) throw usageError(`${name}: give a number of replicas from 0 to 1024`)
  return Number(text)
}

/** Both ways of counting exclude each other; everything else stays. */
function scaleScheduling(scheduling: Scheduling, change: ReplicaChange): Scheduling {
  const { replicas: _replicas, min_replicas: min, max_replicas: max, ...others } = scheduling
  const kept =
    change.replicas === 'all'
      ? {}
      : { ...(min === undefined ? {} : { min_replicas: min }), ...(max === undefined ? {} : { max_replicas: max }) }
  const parsed = Scheduling.safeParse({ ...others, ...kept, ...change })
  if (parsed.success) return parsed.data
  throw usageError(
    `${parsed.error.issues[0]?.message ?? 'not valid'}: it has ${schedulingLines(scheduling)[0] ?? 'none'} now`,
    'give both, as in MIN..MAX',
  )
}

// `muster models logs`.

const modelsLogs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'logs',
    summary: 'Show what the processes of a model wrote',
    details: 'Of several nodes, each line begins with the name of its node. With -o json each line is an object.',
    arguments: [modelArgument],
    options: [
      new Option('--node <node>', 'only on this node, by id or by a name that only one has'),
      new Option('-f, --follow', 'go on until Ctrl-C'),
    ],
    examples: ['muster models logs tiny', 'muster models logs tiny --node gpu-1 -f'],
    run: async (call) => {
      const model = parseModelName(call.words[0])
      const nodes = await nodesOf(call, model)
      if (nodes.length === 0) return call.print.remark('there is no node that could have written something')
      using interrupted = untilInterrupted()
      const wish = { model, isFollowing: call.flag('follow'), signal: interrupted.signal }
      const longest = Math.max(...nodes.map((node) => node.name.length))
      const show = async (node: NamedNode): Promise<void> => {
        for await (const line of logLines(call.api, { ...wish, id: node.id }))
          call.print.line({ node_id: node.id, node_name: node.name, line }, () => {
            return nodes.length === 1 ? plainText(line) : `${plainText(node.name).padEnd(longest)}  ${plainText(line)}`
          })
      }
      // One node that can't be asked hides nothing of the others.
      await Promise.all(nodes.map((node) => show(node).catch((error: unknown) => reportNodeError(call, node, error))))
    },
  })

interface NamedNode {
  readonly id: NodeId
  readonly name: string
}

/** The one that is named; else those of its replicas; without any, all that may have had one. */
async function nodesOf({ api, option }: ClientCall, name: ModelName): Promise<NamedNode[]> {
  const wanted = option('node')
  if (wanted !== undefined) return [await fetchNode(api, wanted)]
  const { replicas } = (await api.call(modelRoutes.replicas, { params: { name } })).body
  const own = new Map(replicas.map((replica) => [replica.node_id, { id: replica.node_id, name: replica.node_name || replica.node_id }]))
  if (own.size > 0) return [...own.values()]
  const { nodes } = (await api.call(nodeRoutes.list)).body
  return nodes.filter((node) => node.node_type === 'backend' && (node.status === 'healthy' || node.status === 'draining'))
}

function reportNodeError({ shell }: ClientCall, node: NamedNode, error: unknown): void {
  if (!(error instanceof CliError)) throw error
  reportError(error.about(plainText(node.name)), shell.terminal)
  shell.fail(1)
}
