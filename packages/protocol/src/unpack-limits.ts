// How much a packed backend may be. A worker refuses whatever is beyond one of these; whoever packs refuses it before.
export interface UnpackLimits {
  readonly bytes: number
  readonly entries: number
  readonly depth: number
  readonly pathBytes: number
  /** Of one part of a path: what every Linux file system takes. */
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
