// A file as the body of an upload request, with a progress line on a terminal.
import { open } from 'node:fs/promises'
import type { Clock } from '@muster/host'
import { formatBytes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { Content } from '../client/api-client.ts'
import { bytesText, percentText } from '../operations/describe-operation.ts'
import { createRateMeter } from '../operations/progress-rows.ts'
import { plainText } from '../output/text.ts'
import { progressBar } from '../output/segments.ts'
import type { Screen } from '../output/terminal.ts'

export interface Upload extends Disposable {
  readonly content: Content
}

export interface UploadDeps {
  readonly screen: Screen | null
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>
}

const tickMs = 200

export async function openUpload(path: string, { screen, clock }: UploadDeps): Promise<Upload> {
  const { stream, sizeBytes } = await openFile(path)
  const ended = new AbortController()
  const measure = createRateMeter()
  let sent = 0
  stream.on('data', (chunk) => void (sent += chunk.length))
  // The listener above must not start the stream.
  stream.pause()

  const draw = (): void => {
    const percentage = sizeBytes === 0 ? 100 : (sent / sizeBytes) * 100
    const rate = measure('', sent, clock.monotonic())
    const { done, left } = progressBar(percentage, 20)
    const speed = rate === null ? '' : `  ${formatBytes(rate)}/s`
    screen?.draw([`${plainText(path)}  ${done}${left}  ${bytesText(sent, sizeBytes)}${speed}  ${percentText(percentage)}`])
  }
  async function tick(): Promise<void> {
    for (; !ended.signal.aborted; draw()) await clock.sleep(tickMs, ended.signal).catch(() => undefined)
  }
  if (screen !== null) void tick()
  return {
    content: { type: 'application/octet-stream', body: { stream, sizeBytes } },
    [Symbol.dispose]: () => {
      ended.abort()
      stream.destroy()
    },
  }
}

async function openFile(path: string) {
  try {
    const file = await open(path)
    const { size: sizeBytes } = await checkedStat(file, path)
    // Not more than the announced size, in case the file grows.
    return { stream: file.createReadStream(sizeBytes === 0 ? {} : { end: sizeBytes - 1 }), sizeBytes }
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(`cannot read ${plainText(path)}: ${error instanceof Error ? plainText(error.message) : String(error)}`, {
      exitCode: 2,
      cause: error,
    })
  }
}

async function checkedStat(file: Awaited<ReturnType<typeof open>>, path: string) {
  const stat = await file.stat()
  if (stat.isFile()) return stat
  await file.close()
  throw new CliError(`${plainText(path)} is not a file`, { exitCode: 2 })
}
