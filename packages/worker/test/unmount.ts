// Unmounts the disk of a test. Files that a thread closes in the background keep it busy for a moment; a leak would forever.
import { execFileSync } from 'node:child_process'
import { waitFor } from '@muster/testkit'

const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })

export async function unmount(path: string): Promise<void> {
  await waitFor(() => run('umount', path).length === 0, { what: `${path} to be released` })
}
