// Decodes LZMA2, the content of xz archives, chunk by chunk (at most 2 MB each). The window is bounded, and every distance and
// length is checked before it is used.
import { refusal } from './refusal.ts'

export const corruptXz = (what: string): Error => refusal('compression', `the xz data is not valid: ${what}`)

/** Offsets of the probabilities of each decision, in one array. */
const isMatch = 0
const isRep = isMatch + (12 << 4)
const isRep0 = isRep + 12
const isRep1 = isRep0 + 12
const isRep2 = isRep1 + 12
const isRep0Long = isRep2 + 12
const slots = isRep0Long + (12 << 4)
const distances = slots + 4 * 64
const align = distances + 115
const matchLength = align + 16
const lengthCoder = 2 + 2 * (16 << 3) + 256
const repLength = matchLength + lengthCoder
const literals = repLength + lengthCoder
const evenChance = 1024

export interface LzmaInput {
  byte(): number
  bytes(count: number): Buffer
}

export class Lzma2 {
  readonly #window: Buffer
  #written = 0
  #probabilities = new Uint16Array(0)
  #literalBits = 0
  #literalMask = 0
  #positionMask = 0
  #hasProperties = false
  #needsReset = true
  #state = 0
  readonly #repeats = new Uint32Array(4)
  #in: Buffer = Buffer.alloc(0)
  #at = 0
  #range = 0
  #code = 0

  constructor(windowBytes: number) {
    this.#window = Buffer.alloc(windowBytes)
  }

  /** The next unpacked chunk; null at the end. */
  next(input: LzmaInput): Buffer | null {
    const control = input.byte()
    if (control === 0) return null
    if (control === 1 || control >= 0xe0) {
      this.#needsReset = false
      this.#written = 0
    }
    if (this.#needsReset) throw corruptXz('it begins without a dictionary')
    if (control < 0x80) {
      if (control > 2) throw corruptXz('a chunk has an unknown kind')
      return this.#copy(input.bytes(((input.byte() << 8) | input.byte()) + 1))
    }
    const size = (((control & 0x1f) << 16) | (input.byte() << 8) | input.byte()) + 1
    const packed = ((input.byte() << 8) | input.byte()) + 1
    if (control >= 0xc0) this.#setProperties(input.byte())
    if (!this.#hasProperties) throw corruptXz('a chunk comes before its properties')
    if (control >= 0xa0) this.#resetState()
    return this.#decode(input.bytes(packed), size)
  }

  #setProperties(properties: number): void {
    if (properties >= 225) throw corruptXz('its properties are unknown')
    const [literalBits, rest] = [properties % 9, Math.floor(properties / 9)]
    const [literalPositions, positions] = [rest % 5, Math.floor(rest / 5)]
    if (literalBits + literalPositions > 4) throw corruptXz('its properties are unknown')
    this.#literalBits = literalBits
    this.#literalMask = (1 << literalPositions) - 1
    this.#positionMask = (1 << positions) - 1
    this.#probabilities = new Uint16Array(literals + (0x300 << (literalBits + literalPositions)))
    this.#hasProperties = true
  }

  #resetState(): void {
    this.#probabilities.fill(evenChance)
    this.#repeats.fill(0)
    this.#state = 0
  }

  #put(byte: number): number {
    this.#window[this.#written % this.#window.length] = byte
    this.#written++
    return byte
  }

  #back(distance: number): number {
    return this.#window[(this.#written - distance - 1) % this.#window.length] ?? 0
  }

  #copy(bytes: Buffer): Buffer {
    for (const byte of bytes) this.#put(byte)
    return bytes
  }

  #decode(packed: Buffer, size: number): Buffer {
    this.#in = packed
    this.#at = 5
    this.#range = 0xffffffff
    this.#code = packed.length < 5 || packed[0] !== 0 ? -1 : packed.readUInt32BE(1)
    if (this.#code < 0) throw corruptXz('a chunk begins with other bytes')
    const out = Buffer.allocUnsafe(size)
    for (let at = 0; at < size;) {
      const position = this.#written & this.#positionMask
      if (this.#bit(isMatch + (this.#state << 4) + position) === 0) out[at++] = this.#literal()
      else at = this.#match(out, at, position)
    }
    if (this.#at !== packed.length || this.#code !== 0) throw corruptXz('a chunk has another length than it states')
    return out
  }

  #literal(): number {
    const before = this.#written === 0 ? 0 : this.#back(0)
    const context = ((this.#written & this.#literalMask) << this.#literalBits) | (before >> (8 - this.#literalBits))
    const base = literals + 0x300 * context
    let symbol = 1
    if (this.#state >= 7) {
      let matched = this.#written > (this.#repeats[0] ?? 0) ? this.#back(this.#repeats[0] ?? 0) : 0
      while (symbol < 0x100) {
        const expected = (matched >> 7) & 1
        matched <<= 1
        const bit = this.#bit(base + ((1 + expected) << 8) + symbol)
        symbol = (symbol << 1) | bit
        if (bit !== expected) break
      }
    }
    while (symbol < 0x100) symbol = (symbol << 1) | this.#bit(base + symbol)
    this.#state = this.#state < 4 ? 0 : this.#state < 10 ? this.#state - 3 : this.#state - 6
    return this.#put(symbol & 0xff)
  }

  /** Returns the new length of the output. */
  #match(out: Buffer, at: number, position: number): number {
    const length = this.#bit(isRep + this.#state) === 0 ? this.#newMatch(position) : this.#repeatedMatch(position)
    const distance = this.#repeats[0] ?? 0
    if (distance >= Math.min(this.#written, this.#window.length)) throw corruptXz('a match begins before the data')
    if (length > out.length - at) throw corruptXz('a chunk is longer than it states')
    for (let index = 0; index < length; index++) out[at + index] = this.#put(this.#back(distance))
    return at + length
  }

  #newMatch(position: number): number {
    this.#repeats.copyWithin(1, 0, 3)
    const length = this.#length(matchLength, position)
    this.#state = this.#state < 7 ? 7 : 10
    this.#repeats[0] = this.#distance(Math.min(length - 2, 3))
    return length
  }

  #repeatedMatch(position: number): number {
    if (this.#bit(isRep0 + this.#state) === 0) {
      if (this.#bit(isRep0Long + (this.#state << 4) + position) === 0) {
        this.#state = this.#state < 7 ? 9 : 11
        return 1
      }
    } else {
      const at = this.#bit(isRep1 + this.#state) === 0 ? 1 : 2 + this.#bit(isRep2 + this.#state)
      const distance = this.#repeats[at] ?? 0
      this.#repeats.copyWithin(1, 0, at)
      this.#repeats[0] = distance
    }
    const length = this.#length(repLength, position)
    this.#state = this.#state < 7 ? 8 : 11
    return length
  }

  #length(coder: number, position: number): number {
    if (this.#bit(coder) === 0) return 2 + this.#tree(coder + 2 + (position << 3), 3)
    if (this.#bit(coder + 1) === 0) return 10 + this.#tree(coder + 2 + (16 << 3) + (position << 3), 3)
    return 18 + this.#tree(coder + 2 + 2 * (16 << 3), 8)
  }

  #distance(lengthState: number): number {
    const slot = this.#tree(slots + lengthState * 64, 6)
    if (slot < 4) return slot
    const bits = (slot >> 1) - 1
    const start = (2 | (slot & 1)) * 2 ** bits
    if (slot < 14) return start + this.#reverseTree(distances + start - slot, bits)
    return start + this.#direct(bits - 4) * 16 + this.#reverseTree(align, 4)
  }

  #tree(base: number, bits: number): number {
    let symbol = 1
    for (let left = bits; left > 0; left--) symbol = (symbol << 1) | this.#bit(base + symbol)
    return symbol - (1 << bits)
  }

  #reverseTree(base: number, bits: number): number {
    let [symbol, value] = [1, 0]
    for (let at = 0; at < bits; at++) {
      const bit = this.#bit(base + symbol)
      symbol = (symbol << 1) | bit
      value |= bit << at
    }
    return value
  }

  #direct(bits: number): number {
    let value = 0
    for (let left = bits; left > 0; left--) {
      this.#range >>>= 1
      const bit = this.#code >= this.#range ? 1 : 0
      if (bit === 1) this.#code -= this.#range
      value = value * 2 + bit
      this.#normalize()
    }
    return value
  }

  #bit(at: number): 0 | 1 {
    const probability = this.#probabilities[at] ?? evenChance
    const bound = (this.#range >>> 11) * probability
    const bit = this.#code < bound ? 0 : 1
    if (bit === 0) {
      this.#range = bound
      this.#probabilities[at] = probability + ((2048 - probability) >> 5)
    } else {
      this.#range -= bound
      this.#code -= bound
      this.#probabilities[at] = probability - (probability >> 5)
    }
    this.#normalize()
    return bit
  }

  #normalize(): void {
    if (this.#range >= 0x1000000) return
    const byte = this.#in[this.#at++]
    if (byte === undefined) throw corruptXz('a chunk ends too early')
    this.#range = (this.#range << 8) >>> 0
    this.#code = this.#code * 256 + byte
  }
}
