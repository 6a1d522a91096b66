// `muster backends upgrade`.
import { type Command, Option } from 'commander'
import { Strategy } from '@muster/protocol'
import { followSubmission } from '../backends/answer-wish.ts'
import { parseBackendName } from '../backends/backend-name.ts'
import { rolloutOf, rolloutOptions } from '../backends/rollout-options.ts'
import { startUpgrades, type UpgradeOptions } from '../backends/start-upgrades.ts'
import { dryRunOption, namedNodes, nodeOption } from '../backends/target-options.ts'
import { usageError } from '../cli-error.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const backendsUpgrade = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'upgrade',
    summary: 'Upgrade backends where they are installed',
    details:
      'rolling: the new build is installed and checked beside the old one before it takes over, on one ring of nodes after the other; if one fails, all return to the old build. recreate: stop, replace, everywhere at once.',
    arguments: [['[name...]', 'of the backends; or use --all']],
    options: [
      new Option('--all', 'every backend that has a newer build, or differs between nodes'),
      new Option('--strategy <strategy>', 'how to replace what runs (default: rolling)').choices(Strategy.options),
      ...rolloutOptions(),
      nodeOption(),
      dryRunOption(),
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
      const wish = upgradeOptions(call)
      const nodes = await namedNodes(call.api, call.list('node'))
      const answer = await startUpgrades(call, { ...wish, ...nodes })
      if ('body' in answer) return followSubmission(call, mode, answer)
      if (answer.ids.length > 0) return followStarted(call, mode, answer)
      call.print.result(answer.raw, () => 'nothing to upgrade')
    },
  })

function upgradeOptions(call: ClientCall): UpgradeOptions {
  const { words, option, flag } = call
  const isAll = flag('all')
  if (isAll === words.length > 0) throw usageError(isAll ? 'give names or --all, not both' : 'name the backends to upgrade, or give --all')
  const isDry = flag('dryRun')
  if (isDry && words.length !== 1) throw usageError('--dry-run shows one backend at a time: name it')
  const strategy = Strategy.optional().parse(option('strategy'))
  return { names: isAll ? null : words.map(parseBackendName), strategy, rollout: rolloutOf(call, strategy), isDry }
}
