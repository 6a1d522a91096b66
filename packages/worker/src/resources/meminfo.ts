// What /proc/meminfo says.
import { parseNumber, saneFree, saneTotal } from './sane-bytes.ts'

export type Memory = Readonly<{ totalBytes: number | null; availableBytes: number | null }>

/** `MemFree` is no answer: it counts the page cache, which the kernel gives back at once, as taken. */
export function parseMeminfo(text: string): Memory {
  const kibibytes = (key: string): number | undefined => {
    const value = parseNumber(new RegExp(`^${key}:\\s*(\\S+) kB$`, 'm').exec(text)?.[1])
    return value === undefined ? undefined : value * 1024
  }
  const totalBytes = saneTotal(kibibytes('MemTotal'))
  return { totalBytes, availableBytes: saneFree(kibibytes('MemAvailable'), totalBytes) }
}
