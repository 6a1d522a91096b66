// Kernel files of a machine as a table.
import type { HostFiles } from '../src/resources/host-files.ts'

export type FakeFiles = Readonly<{
  files?: Readonly<Record<string, string>>
  links?: Readonly<Record<string, string>>
  space?: { totalBytes: number; availableBytes: number }
}>

export function fakeFiles({ files = {}, links = {}, space }: FakeFiles): HostFiles {
  const paths = Object.keys(files)
  return {
    read: async (path) => files[path] ?? null,
    list: async (directory) => [
      ...new Set(
        paths.filter((path) => path.startsWith(`${directory}/`)).map((path) => path.slice(directory.length + 1).split('/')[0] ?? ''),
      ),
    ],
    link: async (path) => links[path] ?? null,
    exists: async (path) => path in files,
    space: async () => space ?? null,
  }
}
