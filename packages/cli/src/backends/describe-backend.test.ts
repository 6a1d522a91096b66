import { NodeId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { type NamedUpgrade, upgradeColumns } from './describe-backend.ts'

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`
const node = (name: string, letter: string) => ({
  node_id: NodeId.parse(`n-${name}`),
  node_name: name,
  version: '1',
  digest: digest(letter),
})
const row = (upgrade: Pick<NamedUpgrade, 'node_drift'>): string[] =>
  upgradeColumns.map(({ cell }) =>
    cell({
      ...{ name: 'llama', installed_version: '1', installed_digest: digest('a'), available_version: '2', available_digest: digest('b') },
      ...upgrade,
    }),
  )

it('the row of an upgrade names each build once', () => {
  const [installed, available] = ['1 (aaaaaaaaaaaa)', '2 (bbbbbbbbbbbb)']
  expect(row({ node_drift: [node('gpu-1', 'c')] })).toEqual(['llama', installed, available, 'gpu-1 has 1 (cccccccccccc)'])
  expect(row({ node_drift: [node('gpu-1', 'a')] })).toEqual(['llama', installed, available, 'only gpu-1 has it'])
  expect(row({ node_drift: [node('gpu-1', 'a'), node('gpu-2', 'c')] })[3]).toBe('only gpu-1 has it, gpu-2 has 1 (cccccccccccc)')
  expect(row({ node_drift: [node('gpu-1', 'a'), node('gpu-2', 'a')] })[3]).toBe('only gpu-1 and gpu-2 have it')
})
