import { expect, it } from 'vitest'
import { parseRocmSmi } from './rocm-smi.ts'

const card = (name: string, totalBytes: number | null, freeBytes: number | null) => ({
  vendor: 'amd',
  name,
  totalBytes,
  freeBytes,
  unified: false,
})

it.each([
  [
    'a card beside a processor’s own graphics',
    '{"card0": {"VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "692142080"}, "card1": {"VRAM Total Memory (B)": "67108864", "VRAM Total Used Memory (B)": "26079232"}}',
    [card('card0', 17163091968, 16470949888), card('card1', 67108864, 41029632)],
  ],
  [
    'warnings around the JSON',
    'WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n{"card0": {"VRAM Total Memory (B)": "8573157376", "VRAM Total Used Memory (B)": "7573157376"}}\n',
    [card('card0', 8573157376, 1000000000)],
  ],
  [
    'F16 figures that are missing or no numbers',
    '{"card0": {"VRAM Total Memory (B)": "N/A"}, "card1": {}}',
    [card('card0', null, null), card('card1', null, null)],
  ],
  [
    'F16 more used than there is',
    '{"card0": {"VRAM Total Memory (B)": "100", "VRAM Total Used Memory (B)": "200"}}',
    [card('card0', 100, null)],
  ],
  ['what is no card', '{"system": {"Driver version": "6.7.0"}, "card0": "broken"}', []],
  ['an error', 'ERROR:root:Driver not initialized (amdgpu not found in modules)\n', []],
  ['JSON that is no object', '[1, 2]', []],
  ['half of the JSON', '{"card0": {"VRAM Total Memory (B)": "171', []],
  ['nothing', '', []],
])('reads %s', (_, stdout, want) => {
  expect(parseRocmSmi(stdout)).toEqual(want)
})
