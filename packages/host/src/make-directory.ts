// Directories that are still there after a power cut: the name of each that is made is synced with the one it is in.
import { mkdir, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** With those above it that are missing; one that is there is left as it is. */
export async function makeDirectory(path: string, { mode }: { readonly mode: number }): Promise<void> {
  const whole = resolve(path)
  const first = await mkdir(whole, { recursive: true, mode })
  if (first === undefined) return
  for (let at = whole; at.length >= first.length; at = dirname(at)) {
    await using parent = await open(dirname(at), 'r')
    await parent.sync()
  }
}
