// Ring of measurements: one row of figures per interval, the oldest overwritten. A missing measurement is a gap, never zero and
// never the value before.

export interface RingSize {
  readonly intervalMs: number
  readonly length: number
  /** Figures per row. */
  readonly width: number
}
export interface RingRow {
  readonly at: number
  /** Null: unknown. */
  readonly figures: readonly (number | null)[]
}

export class SampleRing {
  readonly #size: RingSize
  /** NaN where the figure is unknown. */
  readonly #figures: Float64Array
  /** Number of the interval that was written last. */
  #newest = -1

  constructor(size: RingSize) {
    this.#size = size
    this.#figures = new Float64Array(size.length * size.width).fill(Number.NaN)
  }

  get newestAt(): number {
    return this.#newest * this.#size.intervalMs
  }

  /** The last row of an interval counts. A clock set back a little overwrites rows; one set back far clears the ring. */
  note(at: number, figures: readonly (number | null)[]): void {
    const { intervalMs, length, width } = this.#size
    const slot = Math.floor(at / intervalMs)
    if (Math.abs(slot - this.#newest) >= length) this.#figures.fill(Number.NaN)
    else for (let skipped = this.#newest + 1; skipped < slot; skipped += 1) this.#fill(skipped)
    if (slot > this.#newest || this.#newest - slot >= length) this.#newest = slot
    const start = (slot % length) * width
    for (let i = 0; i < width; i += 1) this.#figures[start + i] = figures[i] ?? Number.NaN
  }

  /** Oldest first, without rows that have no known figure. */
  read(now: number): RingRow[] {
    const { intervalMs, length, width } = this.#size
    const rows: RingRow[] = []
    const oldest = Math.max(0, this.#newest - length + 1, Math.floor(now / intervalMs) - length + 1)
    for (let slot = oldest; slot <= this.#newest; slot += 1) {
      const start = (slot % length) * width
      const figures = [...this.#figures.subarray(start, start + width)].map((figure) => (Number.isNaN(figure) ? null : figure))
      if (figures.some((figure) => figure !== null)) rows.push({ at: slot * intervalMs, figures })
    }
    return rows
  }

  #fill(slot: number): void {
    const start = (slot % this.#size.length) * this.#size.width
    this.#figures.fill(Number.NaN, start, start + this.#size.width)
  }
}
