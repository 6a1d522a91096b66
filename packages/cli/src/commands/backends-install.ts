// `muster backends install`.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { backendRoutes, InstallRequest } from '@muster/protocol'
import { followSubmission } from '../backends/answer-wish.ts'
import { dryRunOption, namedNodes, nodeOption, parseSelector, selectorOption } from '../backends/target-options.ts'
import { usageError } from '../cli-error.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const backendsInstall = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'install',
    summary: 'Install a backend on all nodes that it fits, or on some',
    details: 'Nodes that are away get it when they are back. What a node has already stays, unless --version or --digest asks for another.',
    arguments: [['[name]', 'of a gallery; or use --uri and --name']],
    options: [
      new Option('--uri <uri>', 'install this: an OCI image, an https archive, or file:/// on the nodes'),
      new Option('--name <name>', 'the name that --uri is installed as'),
      new Option('--alias <alias>', 'another name for what --uri installs'),
      new Option('--digest <digest>', 'exactly this build (sha256:…)'),
      new Option('--version <version>', 'exactly this version'),
      nodeOption(),
      selectorOption(),
      dryRunOption(),
      ...followOptions(),
    ],
    examples: [
      'muster backends install llama',
      'muster backends install llama --node gpu-1 --node gpu-2 --wait=30m',
      'muster backends install --uri oci://registry.example.com/engine:1.4 --name engine --selector gpu.vendor=nvidia',
    ],
    run: async (call) => {
      const mode = followMode(call)
      const wish = installRequest(call)
      const body = { ...wish, ...(await namedNodes(call.api, call.list('node'))) }
      await followSubmission(call, mode, await call.api.call(backendRoutes.install, { body, idempotencyKey: newId() }))
    },
  })

function installRequest({ words: [backend], option, list, flag }: ClientCall): InstallRequest {
  const uri = option('uri')
  if (backend === undefined && uri === undefined) throw usageError('name a backend of a gallery, or give --uri and --name')
  if (backend !== undefined && (uri !== undefined || option('name') !== undefined))
    throw usageError('name a backend of a gallery, or give --uri and --name, not both')
  if (uri !== undefined && option('name') === undefined) throw usageError('--uri needs --name, the name it is installed as')
  const selector = option('selector')
  if (selector !== undefined && list('node').length > 0) throw usageError('give --node or --selector, not both')
  const given = {
    backend,
    uri,
    name: option('name'),
    alias: option('alias'),
    digest: option('digest'),
    version: option('version'),
    selector: selector === undefined ? undefined : parseSelector(selector),
    dry_run: flag('dryRun') ? true : undefined,
  }
  const parsed = InstallRequest.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`${issue?.path[0] === 'backend' ? 'name' : `--${String(issue?.path[0] ?? 'uri')}`}: ${issue?.message ?? 'not valid'}`)
}
