// Writes the files of a NATS server that requires tokens: its configuration, and the seed with which controllers make
// tokens. Neither is ever replaced: with another account, no node could connect any more.
import { chmod, mkdir, open } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { errorCode, errorMessage } from '@muster/host'
import { CliError } from '../cli-error.ts'

export async function writeNatsConfig(directory: string): Promise<{ config: string; seed: string }> {
  const { createNatsConfig } = await import('@muster/bus')
  const { config, accountSeed } = await createNatsConfig()
  const files = { config: join(directory, 'nats.conf'), seed: join(directory, 'nats-account.seed') }
  try {
    await makeSearchable(directory)
    await writeNew(files.seed, { text: `${accountSeed}\n`, mode: 0o600 })
    // No secret, and nats-server usually runs as a user of its own.
    await writeNew(files.config, { text: config, mode: 0o644 })
  } catch (error) {
    if (error instanceof CliError) throw error
    const hint = 'run it as a user that may write there, or name another directory with --out'
    throw new CliError(`cannot write to ${directory}: ${errorMessage(error)}`, { cause: error, hint })
  }
  return files
}

/** New directories are readable for other users, whatever the umask; existing ones are not changed. */
async function makeSearchable(directory: string): Promise<void> {
  const full = resolve(directory)
  const first = await mkdir(full, { recursive: true })
  if (first === undefined) return
  for (let each = full; each.length >= first.length; each = dirname(each)) await chmod(each, 0o755)
}

async function writeNew(path: string, { text, mode }: { text: string; mode: number }): Promise<void> {
  try {
    await using file = await open(path, 'wx', 0o600)
    await file.writeFile(text)
    await file.chmod(mode)
    await file.sync()
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
    throw new CliError(`${path} exists and is not replaced: its nodes could not connect any more`, {
      hint: 'name another directory with --out',
    })
  }
}
