import { checkGatewayToken, Secret } from '@muster/host'
import { Digest, gatewayScope, ModelConfig, NodeId } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { FileHolder } from '../store/inventory.ts'
import { filesFor } from './model-files.ts'

const [hexA, hexB, hexC] = ['a', 'b', 'c'].map((letter) => letter.repeat(64))
const digest = (hex: string | undefined) => Digest.parse(`sha256:${hex}`)
const holder = (name: string, ...files: (string | undefined)[]): FileHolder => ({
  ...{ id: NodeId.parse(name), gatewayUrl: `http://${name}:1`, gatewaySecret: new Secret(`secret of ${name}`) },
  files: new Map(files.map((hex) => [digest(hex), 7])),
})
const config = ModelConfig.parse({
  ...{ name: 'm', backend: 'b' },
  files: [
    { uri: 'https://h/a', filename: 'a', sha256: hexA },
    { uri: `upload:sha256:${hexB}`, filename: 'b' },
    { uri: 'https://h/c', filename: 'c' },
    { uri: 'https://h/d', filename: 'd', sha256: hexC, unpack: true },
  ],
})

it('each file comes with the other nodes that have its very bytes', () => {
  const holders = [holder('one', hexA, hexB), holder('two', hexA), { ...holder('three', hexA), gatewayUrl: '' }]
  const [a, b, c, d] = filesFor(config, { nodeId: NodeId.parse('one'), holders, controller: 'c1' })
  expect(a).toMatchObject({ filename: 'a', sha256: hexA, size: 7 })
  expect(a?.peers?.map(({ url }) => url)).toEqual([`http://two:1/files/sha256:${hexA}`])
  // It has it already, and nobody else does; what was uploaded is known by its digest.
  expect(b).toEqual({ uri: `upload:sha256:${hexB}`, filename: 'b', sha256: hexB, size: 7 })
  expect([c, d]).toEqual(config.files.slice(2))
})

it('the authorization is for that file at that gateway, and for nothing else', () => {
  const [a] = filesFor(config, { nodeId: NodeId.parse('one'), holders: [holder('two', hexA)], controller: 'c1' })
  const token = a?.peers?.[0]?.authorization.replace('Bearer ', '') ?? ''
  const grant = { secret: 'secret of two', nodeId: 'two', scope: gatewayScope.file(digest(hexA)) }
  expect(checkGatewayToken(token, grant)).toBe('c1')
  for (const other of [{ scope: gatewayScope.file(digest(hexB)) }, { nodeId: 'one' }, { scope: gatewayScope.upload }])
    expect(checkGatewayToken(token, { ...grant, ...other })).toBeNull()
})

it('names a few peers at most', () => {
  const holders = Array.from({ length: 40 }, (_, index) => holder(`n${index}`, hexA))
  const [a] = filesFor(config, { nodeId: NodeId.parse('one'), holders, controller: 'c1' })
  expect(a?.peers).toHaveLength(4)
})
