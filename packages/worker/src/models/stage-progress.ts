// How far all files of a model are, told as one. Without a total as long as the size of one of them is not known: a bar
// that goes back says less than none.
import type { InstallProgress } from '../operations/installer.ts'

export interface FileProgress {
  onBytes(bytes: number): void
  onSize(bytes: number): void
}

export function createStageProgress(files: number, onProgress: (progress: InstallProgress) => void): (filename: string) => FileProgress {
  const have = new Map<string, number>()
  const sizes = new Map<string, number>()
  const sum = (numbers: Map<string, number>): number => numbers.values().reduce((all, each) => all + each, 0)
  return (filename) => ({
    onSize: (bytes) => void sizes.set(filename, bytes),
    onBytes(bytes) {
      have.set(filename, bytes)
      const current = sum(have)
      const total = sizes.size === files ? Math.max(sum(sizes), current) : 0
      onProgress({ phase: 'downloading', fileName: filename, current, total })
    },
  })
}
