import { describe, expect, it } from 'vitest'
import { checkGatewayToken, mintGatewayToken } from './gateway-token.ts'

const grant = { secret: 'a'.repeat(64), nodeId: 'n-1', scope: 'replica:r-1' }

describe('a gateway token', () => {
  const token = mintGatewayToken({ ...grant, controller: 'c-1' })

  it('names its controller', () => expect(checkGatewayToken(token, grant)).toBe('c-1'))

  it.each([
    ['another node', { nodeId: 'n-2' }],
    ['another replica', { scope: 'replica:r-2' }],
    ['another kind of thing', { scope: 'logs' }],
    ['another secret', { secret: 'b'.repeat(64) }],
  ])('I14 is no good for %s', (_, over) => expect(checkGatewayToken(token, { ...grant, ...over })).toBeNull())

  it.each([
    ['', ''],
    ['another controller in its name', token.replace('c-1', 'c-2')],
    ['half of it', token.slice(0, -1)],
    ['more of it', `${token}A`],
    ['another version', token.replace('v1', 'v2')],
  ])('is refused: %s', (_, text) => expect(checkGatewayToken(text, grant)).toBeNull())
})
