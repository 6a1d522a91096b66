// The server's own log. The server writes to the file itself, never through a pipe: a pipe that Muster does not empty (stopped, busy)
// would block the server. So that the file stays small, Muster cuts it from time to time; the server appends, wherever the end is.
import { open } from 'node:fs/promises'
import type { Clock, Log } from '@muster/host'

/** Checked often enough that the file stays below 10 MB unless the server writes more than half a megabyte per second. */
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
  while (!signal.aborted) {
    await cutLog(path).catch((error: unknown) => log.warn("can't keep the log of the database server small", { path, error }))
    await clock.sleep(checkEveryMs, signal).catch(() => {})
  }
}

/** Keeps the newest part. What the server writes between the read and the cut is lost: a line or two of a log. */
export async function cutLog(path: string): Promise<void> {
  await using file = await open(path, 'a+', 0o600)
  const { size } = await file.stat()
  if (size <= cutAboveBytes) return
  const newest = await readEnd(file, { size, bytes: keptBytes })
  await file.truncate(0)
  await file.write(newest.subarray(newest.indexOf(0x0a) + 1))
}

/** What was written after `from`, at most the last 4 kB of it. */
export async function readLogSince(path: string, from: number): Promise<string> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  return (await readEnd(file, { size, bytes: Math.min(4096, Math.max(0, size - from)) })).toString('utf8').trim()
}

async function readEnd(file: Awaited<ReturnType<typeof open>>, { size, bytes }: { size: number; bytes: number }): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, size - bytes)
  return buffer.subarray(0, bytesRead)
}
