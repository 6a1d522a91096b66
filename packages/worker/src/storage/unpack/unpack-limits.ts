// How much an archive may be. Beyond any of these it is refused, whatever it is.

export interface UnpackLimits {
  readonly bytes: number
  readonly entries: number
  readonly depth: number
  readonly pathBytes: number
  /** Unpacked by packed size, once more than `ratioFreeBytes` were unpacked. */
  readonly ratio: number
  readonly ratioFreeBytes: number
}

export const defaultUnpackLimits: UnpackLimits = {
  bytes: 10 * 1024 ** 3,
  entries: 200_000,
  depth: 64,
  pathBytes: 1024,
  ratio: 200,
  ratioFreeBytes: 64 * 1024 ** 2,
}
