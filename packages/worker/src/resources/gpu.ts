// One GPU as the tools and files of a machine describe it. Null is unknown.
export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple'

export type Gpu = Readonly<{
  vendor: GpuVendor
  name: string
  totalBytes: number | null
  freeBytes: number | null
  /** It works in the machine's own memory and has none to itself. */
  unified: boolean
}>
