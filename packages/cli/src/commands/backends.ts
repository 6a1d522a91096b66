// `muster backends …`: the engines on the nodes.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { backendRoutes, InstallRequest, type NodeId, Strategy } from '@muster/protocol'
import { fetchNodes, parseBackendName, parseSelectorOption, selectorHelp } from '../arguments.ts'
import { installedColumns, leftOutRemark, offeredColumns, upgradeColumns } from '../backends/describe-backend.ts'
import { followSubmission, rolloutOf, rolloutOptions, showPlans, startUpgrades, type UpgradeOptions } from '../backends/upgrades.ts'
import { usageError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { followMode, followOptions, followStarted } from '../operations/follow-started.ts'
import { renderTable } from '../output/table.ts'
import { formatAge, plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, type ClientCall, collect, defineGroup } from './command.ts'

export function backends(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'backends', summary: 'List, install, upgrade and remove the engines on the nodes' })
  addCommands(group, shell, [backendsLs, backendsGallery, backendsInstall, backendsUpgrade, backendsRm, backendsUpgrades])
}

// The nodes of a command: `--node`, which may be repeated, or `--selector`; without either, all that fit.
const nodeOption = new Option('--node <node>', 'only on this node, by id or unique name; may be repeated').argParser(collect)
const selectorOption = new Option('--selector <labels>', `only on nodes with these labels: ${selectorHelp}`)
const dryRunOption = new Option('--dry-run', 'show the plan for each node, and change nothing')

const backendsLs: ClientCommand = {
  name: 'ls',
  summary: 'List the installed backends and their nodes',
  details: 'Nodes that are away are shown with the backends that they last reported.',
  run: async ({ api, print }) => {
    const { raw, body } = await api.call(backendRoutes.list)
    if (print.format === 'text' && body.backends.length === 0)
      return print.remark(
        'no backends are installed; `muster backends gallery` lists the available ones, `muster backends install NAME` installs one',
      )
    print.result(raw, () => renderTable(installedColumns, body.backends, print.width))
    if (body.backends.some((backend) => backend.upgrade_available || backend.drift))
      print.remark('`muster backends upgrades` shows the differences, `muster backends upgrade --all` upgrades')
  },
}

const backendsGallery: ClientCommand = {
  name: 'gallery',
  summary: 'List the backends that galleries offer, and how many nodes each one fits',
  details: '-o json includes development builds, and the reason why a backend does not fit a node.',
  options: [new Option('--development', 'include builds of unreleased code')],
  run: async ({ api, print, flag }) => {
    const { raw, body } = await api.call(backendRoutes.gallery)
    const shown = body.backends.filter(({ channel }) => channel === 'release' || flag('development'))
    if (print.format === 'json' || body.backends.length > 0) print.result(raw, () => renderTable(offeredColumns, shown, print.width))
    else print.remark('no backends are offered; `muster galleries add NAME URL` adds a gallery')
    const hidden = body.backends.length - shown.length
    if (print.format === 'text' && hidden > 0)
      print.remark(`${hidden} development ${hidden === 1 ? 'build is' : 'builds are'} not shown; --development shows them`)
    for (const { gallery, message } of body.problems) print.remark(plainText(`cannot read gallery ${gallery}: ${message}`))
    for (const left of body.left_out) print.remark(plainText(leftOutRemark(left)))
  },
}

const backendsInstall: ClientCommand = {
  name: 'install',
  summary: 'Install a backend on all nodes that it fits, or on selected ones',
  details:
    'Nodes that are away install it when they are back. A node that already has the backend keeps its build, unless a gallery, --version or --digest names another one.',
  arguments: [['[name]', 'the name in a gallery, or GALLERY@NAME for one gallery; or use --uri and --name']],
  options: [
    new Option('--uri <uri>', 'install this: an OCI image, an https archive, or file:/// on the nodes'),
    new Option('--name <name>', 'the name to install --uri under'),
    new Option('--alias <alias>', 'another name for what --uri installs'),
    new Option('--digest <digest>', 'exactly this build (sha256:…)'),
    new Option('--version <version>', 'exactly this version'),
    nodeOption,
    selectorOption,
    dryRunOption,
    ...followOptions(),
  ],
  examples: [
    'muster backends install llama',
    'muster backends install localai@llama-cpp',
    'muster backends install llama --node gpu-1 --node gpu-2 --wait=30m',
    'muster backends install --uri oci://registry.example.com/engine:1.4 --name engine --selector gpu.vendor=nvidia',
  ],
  run: async (call) => {
    const mode = followMode(call)
    const request = installRequest(call)
    const body = { ...request, ...(await namedNodes(call.api, call.list('node'))) }
    await followSubmission(call, mode, await call.api.call(backendRoutes.install, { body, idempotencyKey: newId() }))
  },
}

function installRequest({ words: [backend], option, list, flag }: ClientCall): InstallRequest {
  const uri = option('uri')
  if (backend === undefined && uri === undefined) throw usageError('name a backend of a gallery, or give --uri and --name')
  if (backend !== undefined && (uri !== undefined || option('name') !== undefined))
    throw usageError('name a backend of a gallery, or give --uri and --name, not both')
  if (uri !== undefined && option('name') === undefined) throw usageError('--uri needs --name, the name to install it under')
  const selector = option('selector')
  if (selector !== undefined && list('node').length > 0) throw usageError('give --node or --selector, not both')
  const given = {
    backend,
    uri,
    name: option('name'),
    alias: option('alias'),
    digest: option('digest'),
    version: option('version'),
    selector: selector === undefined ? undefined : parseSelectorOption(selector),
    dry_run: flag('dryRun') ? true : undefined,
  }
  const parsed = InstallRequest.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`${issue?.path[0] === 'backend' ? 'name' : `--${String(issue?.path[0] ?? 'uri')}`}: ${issue?.message ?? 'not valid'}`)
}

const backendsUpgrade: ClientCommand = {
  name: 'upgrade',
  summary: 'Upgrade backends where they are installed',
  details:
    'rolling: the new build is installed and checked beside the old one before it takes over, one ring of nodes after the other; if a ring fails, all nodes return to the old build. recreate: stop and replace on all nodes at once.',
  arguments: [['[name...]', 'the backends; or use --all']],
  options: [
    new Option('--all', 'every backend that has a newer build, or differs between nodes'),
    new Option('--strategy <strategy>', 'how to replace running replicas (default: rolling)').choices(Strategy.options),
    ...rolloutOptions(),
    nodeOption,
    dryRunOption,
    ...followOptions(),
  ],
  examples: [
    'muster backends upgrade llama',
    'muster backends upgrade --all --wait=1h',
    'muster backends upgrade llama --canary 2 --max-parallel 4 --min-healthy-time 1m',
    'muster backends upgrade llama --strategy recreate --node gpu-1',
  ],
  run: async (call) => {
    const mode = followMode(call)
    const options = upgradeOptions(call)
    const nodes = await namedNodes(call.api, call.list('node'))
    const answer = await startUpgrades(call, { ...options, ...nodes })
    if ('body' in answer) return followSubmission(call, mode, answer)
    if ('plans' in answer) return showPlans(call, answer)
    if (answer.ids.length > 0) return followStarted(call, mode, answer)
    call.print.result(answer.raw, () => 'nothing to upgrade')
  },
}

function upgradeOptions(call: ClientCall): UpgradeOptions {
  const { words, option, flag } = call
  const isAll = flag('all')
  if (isAll === words.length > 0) throw usageError(isAll ? 'give names or --all, not both' : 'name the backends to upgrade, or give --all')
  const isDry = flag('dryRun')
  if (isDry && words.length > 1) throw usageError('--dry-run shows one backend or --all')
  const strategy = Strategy.optional().parse(option('strategy'))
  return { names: isAll ? null : words.map(parseBackendName), strategy, rollout: rolloutOf(call, strategy), isDry }
}

const backendsRm: ClientCommand = {
  name: 'rm',
  summary: 'Delete a backend from all nodes that have it, or from selected ones',
  details: 'Nodes that are away delete it when they are back. A backend that serves a model is kept, unless --force is given.',
  arguments: [['<name>', 'the backend']],
  options: [
    nodeOption,
    new Option('--force', 'also delete it where it serves a model, which is drained first'),
    dryRunOption,
    ...followOptions(),
  ],
  examples: ['muster backends rm llama', 'muster backends rm llama --node gpu-1'],
  run: async (call) => {
    const { api, words, list, flag } = call
    const mode = followMode(call)
    const name = parseBackendName(words[0])
    const { nodes } = await namedNodes(api, list('node'))
    const query = { node: nodes, force: flag('force'), dry_run: flag('dryRun') }
    await followSubmission(call, mode, await api.call(backendRoutes.remove, { params: { name }, query, idempotencyKey: newId() }))
  },
}

const backendsUpgrades: ClientCommand = {
  name: 'upgrades',
  summary: 'List backends that have a newer build, or differ between nodes',
  options: [new Option('--check', 'query galleries and registries now, instead of showing the last result')],
  examples: ['muster backends upgrades --check'],
  run: async ({ shell, api, print, flag }) => {
    const { raw, body } = flag('check')
      ? await api.call(backendRoutes.check, { body: {}, idempotencyKey: newId() })
      : await api.call(backendRoutes.upgrades)
    const rows = Object.entries(body.upgrades)
      .map(([name, upgrade]) => ({ name, ...upgrade }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    const checked = body.checked_at === null ? null : `${formatAge(body.checked_at, shell.clock.now())} ago`
    if (print.format === 'json' || rows.length > 0) print.result(raw, () => renderTable(upgradeColumns, rows, print.width))
    else if (checked !== null) {
      const outcome = body.problems.length === 0 ? 'nothing to upgrade' : 'no newer build was found, and not everything could be checked'
      print.remark(`${outcome}; galleries and registries were checked ${checked}`)
    }
    if (checked === null) print.remark('galleries and registries were not checked yet; `muster backends upgrades --check` checks them now')
    for (const { backend, message } of body.problems) print.remark(plainText(`cannot check ${backend ?? 'a gallery'}: ${message}`))
  },
}

async function namedNodes(api: ApiClient, names: readonly string[]): Promise<{ nodes?: NodeId[] }> {
  if (names.length === 0) return {}
  const nodes = await fetchNodes(api, names)
  return { nodes: [...new Set(nodes.map((node) => node.id))] }
}
