// The version that store-child.ts upgrades to: two layers, the second large enough to be killed within.
import { layerOf, tar } from '@muster/testkit'
import { runSh } from './test-store.ts'

const data = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * at * 31 + at) % 251))

export const upgradeLayers = [
  layerOf(tar([runSh, { path: 'version', data: 'two' }])),
  layerOf(
    tar([
      { path: 'lib/data', data },
      { path: 'lib/link', type: '2', linkPath: 'data' },
    ]),
    'none',
  ),
]
