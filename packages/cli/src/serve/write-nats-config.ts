// The files of a NATS server that lets in nobody without a token: its configuration, and the seed with which
// controllers make tokens. Neither is ever replaced: with another account no node could connect any more.
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@muster/host'
import { CliError } from '../cli-error.ts'

export interface NatsFiles {
  readonly config: string
  readonly seed: string
}

export async function writeNatsConfig(directory: string): Promise<NatsFiles> {
  const { createNatsConfig } = await import('@muster/bus')
  const { config, accountSeed } = await createNatsConfig()
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const files = { config: join(directory, 'nats.conf'), seed: join(directory, 'nats-account.seed') }
  await writeNew(files.seed, `${accountSeed}\n`)
  await writeNew(files.config, config)
  return files
}

async function writeNew(path: string, text: string): Promise<void> {
  try {
    await using file = await open(path, 'wx', 0o600)
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
    throw new CliError(`${path} is there already and is not replaced: its nodes could not connect any more`, {
      hint: 'name another directory with --out',
    })
  }
}
