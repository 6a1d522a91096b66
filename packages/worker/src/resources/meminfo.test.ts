import { expect, it } from 'vitest'
import { parseMeminfo } from './meminfo.ts'

it.each([
  [
    'both figures',
    'MemTotal:       16384 kB\nMemFree:          100 kB\nMemAvailable:    8192 kB\nSwapTotal: 9 kB\n',
    16384 * 1024,
    8192 * 1024,
  ],
  ['F16 no MemAvailable (an old kernel)', 'MemTotal:       16384 kB\nMemFree:          100 kB\n', 16384 * 1024, null],
  ['F16 more available than there is', 'MemTotal: 10 kB\nMemAvailable: 11 kB\n', 10 * 1024, null],
  ['F16 no numbers', 'MemTotal: many kB\nMemAvailable: -5 kB\n', null, null],
  ['F16 nothing', '', null, null],
])('reads %s', (_, text, totalBytes, availableBytes) => {
  expect(parseMeminfo(text)).toEqual({ totalBytes, availableBytes })
})
