// Limits of a packed backend. A worker refuses anything beyond them, and so does packing.
export interface UnpackLimits {
  readonly bytes: number
  readonly entries: number
  readonly depth: number
  readonly pathBytes: number
  /** Bytes of one path segment: the limit of every Linux file system. */
  readonly nameBytes: number
  /** Unpacked by packed size, once more than `ratioFreeBytes` were unpacked. */
  readonly ratio: number
  readonly ratioFreeBytes: number
}

export const defaultUnpackLimits: UnpackLimits = {
  bytes: 10 * 1024 ** 3,
  entries: 200_000,
  depth: 64,
  pathBytes: 1024,
  nameBytes: 255,
  ratio: 200,
  ratioFreeBytes: 64 * 1024 ** 2,
}
