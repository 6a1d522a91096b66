// The server's log. The server writes to the file directly, because a pipe that Muster does not read (stopped, busy) would
// block the server. Muster cuts the file periodically; the server appends at the new end.
import { open } from 'node:fs/promises'
import { createLoop, type Clock, type Log } from '@muster/host'

/** Keeps the file below 10 MB unless the server writes more than half a megabyte per second. */
const [cutAboveBytes, keptBytes, checkEveryMs] = [6_000_000, 2_000_000, 5_000]

export async function keepLogBounded({
  path,
  clock,
  log,
  signal,
}: {
  path: string
  clock: Clock
  log: Log
  signal: AbortSignal
}): Promise<void> {
  await createLoop({ what: 'cannot cut the database server log; retrying', clock, log, retryMs: checkEveryMs }).run(async () => {
    await cutLog(path)
    return checkEveryMs
  }, signal)
}

/** Keeps the newest part. Lines written between the read and the cut are lost. */
export async function cutLog(path: string): Promise<void> {
  await using file = await open(path, 'a+', 0o600)
  const { size } = await file.stat()
  if (size <= cutAboveBytes) return
  const newest = await readEnd(file, { size, bytes: keptBytes })
  await file.truncate(0)
  await file.write(newest.subarray(newest.indexOf(0x0a) + 1))
}

/** The text after `from`, at most the last 4 kB. */
export async function readLogSince(path: string, from: number): Promise<string> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  return (await readEnd(file, { size, bytes: Math.min(4096, Math.max(0, size - from)) })).toString('utf8').trim()
}

async function readEnd(file: Awaited<ReturnType<typeof open>>, { size, bytes }: { size: number; bytes: number }): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, size - bytes)
  return buffer.subarray(0, bytesRead)
}
