import { BackendName, NodeId, OperationId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { newId, newSecret, sha256Hex } from './random-id.ts'

describe('newId', () => {
  it('is 20 lower-case letters and digits, never the same', () => {
    const ids = Array.from({ length: 1000 }, () => newId())
    expect(ids.every((id) => /^[a-z0-9]{20}$/.test(id))).toBe(true)
    expect(new Set(ids).size).toBe(1000)
  })

  it('uses all of its alphabet', () => {
    expect(new Set(Array.from({ length: 200 }, () => newId()).join('')).size).toBe(32)
  })

  it('is an id for the protocol, also with a prefix', () => {
    expect(newId('op')).toMatch(/^op-[a-z0-9]{20}$/)
    for (const schema of [NodeId, OperationId, BackendName]) expect(schema.safeParse(newId('n')).success).toBe(true)
  })
})

it('SEC1 a secret holds 256 random bits and names its purpose', () => {
  const secret = newSecret('muster_admin')
  expect(secret).toMatch(/^muster_admin_[A-Za-z0-9_-]{43}$/)
  expect(newSecret('muster_admin')).not.toBe(secret)
})

it('hashes text and bytes alike', () => {
  const expected = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
  expect(sha256Hex('abc')).toBe(expected)
  expect(sha256Hex(new TextEncoder().encode('abc'))).toBe(expected)
})
