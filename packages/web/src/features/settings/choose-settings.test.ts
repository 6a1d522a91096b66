import type { SettingView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { chooseSettings } from './settings-words.pure.ts'

const setting = (flag: string, more: Partial<SettingView> = {}): SettingView => ({
  ...{ flag, value: '1', default: '1', from: 'default', description: '', is_secret: false },
  ...more,
})
const settings = [
  setting('port'),
  setting('node-timeout', {
    value: '20s',
    default: '15s',
    from: 'MUSTER_NODE_TIMEOUT',
    description: 'silence after which a node is unhealthy',
  }),
  setting('auto-approve', { description: 'approve every node that joins' }),
  setting('admin-key', { value: 'set', default: 'not set', is_secret: true }),
]

it.each<[string, string, readonly string[]]>([
  ['all settings by name, changed ones first', '', ['admin-key', 'node-timeout', 'auto-approve', 'port']],
  ['settings with all words, in any order', 'NODE  every', ['auto-approve']],
  ['settings by flag', '--po', ['port']],
  ['settings by source', 'muster_node', ['node-timeout']],
  ['nothing', 'zebra', []],
])('lists %s', (_, search, want) => {
  expect(chooseSettings(settings, search).map(({ flag }) => flag)).toEqual(want)
})
