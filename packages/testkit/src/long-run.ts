// The long versions of tests: `npm run test:long` runs every case of a matrix and full lengths; `npm test` a sample.

export const isLongRun = process.env['TEST_LONG'] === '1'

/** All cases in a long run; otherwise `count` of them, evenly spread, always with the first and the last. */
export function sampleCases<T>(cases: readonly T[], count: number): T[] {
  if (isLongRun || cases.length <= count) return [...cases]
  const step = (cases.length - 1) / Math.max(count - 1, 1)
  return Array.from({ length: count }, (_, at) => cases[Math.round(at * step)]).filter((each) => each !== undefined)
}
