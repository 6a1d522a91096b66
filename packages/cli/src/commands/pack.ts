// `muster pack`: makes an image that nodes can install from a directory.
import { type Command, Option } from 'commander'
import { formatBytes } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { createPrinter } from '../output/terminal.ts'
import { renderFields } from '../output/table.ts'
import { type Shell, listenForInterrupt } from '../shell.ts'
import { collect, defineCommand, collectOptions, createOptionReader, type OptionValues } from './command.ts'

const options = (): Option[] => [
  new Option('-t, --tag <ref>', 'the name of the image: host/name:tag').makeOptionMandatory(),
  new Option('--push', 'push it to the registry of its name'),
  new Option('--platform <os/arch>', 'for these machines only; repeatable (default: for every machine)').argParser(collect),
  new Option('--out <path>', 'write an OCI image layout into this directory, or into this .tar file'),
  new Option('--compression <kind>', 'how the layer is packed').choices(['zstd', 'gzip', 'none']).default('zstd'),
  new Option('--allow-source <host>', 'a private registry (HOST[:PORT] or CIDR) to push to; repeatable').argParser(collect),
  new Option('--docker-config <file>', 'credentials of registries (default: $DOCKER_CONFIG/config.json, else ~/.docker/config.json)'),
  new Option('-o, --output <format>', 'json prints digest, size and files').choices(['text', 'json']),
]

export function pack(parent: Command, shell: Shell): Command {
  const command = defineCommand(parent, {
    name: 'pack',
    summary: 'Make an OCI image from the directory of a backend',
    details:
      'The same files give the same digest on any machine: times, owners and the order of files are not part of it. Content that a worker refuses to unpack (links that lead out, devices, setuid files) is refused here, with the reason.',
    arguments: [['<dir>', 'the directory, with backend.json or run.sh at its root']],
    options: options(),
    examples: [
      'muster pack ./my-engine -t registry.example.com/my-engine:1.0 --push',
      'muster pack ./my-engine -t my-engine:1.0 --out my-engine.tar --platform linux/amd64',
    ],
  })
  return command.action(async () => {
    const values = collectOptions(command)
    const { packImage } = await import('../pack/pack-image.ts')
    const print = createPrinter(shell.terminal, values['output'] === 'json' ? 'json' : 'text')
    using interruption = listenForInterrupt()
    const request = { ...readOptions(values), directory: command.args[0] ?? '', env: shell.env, clock: shell.clock }
    const packed = await packImage(request, { remark: print.remark, signal: interruption.signal })
    print.result(packed, () =>
      renderFields([
        ['Image', packed.image],
        ['Digest', packed.digest],
        ['Size', `${formatBytes(packed.size)}, ${packed.files} files`],
        ...(packed.out === null ? [] : [['Written', packed.out] as const]),
        ['Pushed', packed.pushed ? 'yes' : 'no'],
      ]),
    )
  })
}

function readOptions(values: OptionValues) {
  const { option, flag, list } = createOptionReader(values)
  const push = flag('push')
  const out = option('out')
  if (!push && out === undefined) throw usageError('give --push, --out PATH or both: without them nothing is written')
  const compression = values['compression'] === 'gzip' || values['compression'] === 'none' ? values['compression'] : 'zstd'
  return {
    tag: option('tag') ?? '',
    push,
    out: out ?? null,
    platforms: list('platform').map(parsePlatform),
    compression,
    allowSource: list('allowSource'),
    dockerConfig: option('dockerConfig') ?? null,
  } as const
}

function parsePlatform(value: string): { os: string; architecture: string } {
  const [, os, architecture] = /^([a-z0-9]{1,32})\/([a-z0-9_]{1,32})$/.exec(value) ?? []
  if (os === undefined || architecture === undefined) throw usageError(`"${value}" is not os/arch, as in linux/amd64`)
  return { os, architecture }
}
