// The parts of the code that `npm run mutate` changes, the tests that should notice, and the share that they should notice.
export interface Part {
  readonly name: string
  readonly files: readonly string[]
  readonly tests: readonly string[]
  /** Integration tests count too. Threads and processes that tests start run the unchanged code. */
  readonly needsServers: boolean
  /** In percent. */
  readonly aim: number
}

const pure = (name: string): Part => ({
  name: `${name}-pure`,
  files: [`packages/${name}/src/**/*.pure.ts`, ...(name === 'protocol' ? ['packages/protocol/src/states/*.ts'] : [])],
  tests: [`packages/${name}/{src,test}/**/*.test.{ts,tsx}`],
  needsServers: false,
  aim: 90,
})

const folder = (path: string, more: Partial<Part> = {}): Part => ({
  name: path.split('/').at(-1) ?? path,
  files: [`packages/${path.replace('/', '/src/')}/**/*.ts`],
  tests: [`packages/${path.replace('/', '/src/')}/**/*.test.ts`],
  needsServers: true,
  aim: 75,
  ...more,
})

export const parts: readonly Part[] = [
  ...['protocol', 'controller', 'worker', 'web'].map(pure),
  folder('controller/work', { needsServers: false }),
  folder('worker/operations', { needsServers: false }),
  folder('worker/storage'),
  folder('controller/store'),
]

export function findPart(name: string | undefined): Part {
  const part = parts.find((each) => each.name === name)
  if (part === undefined) throw new Error(`unknown part "${name ?? ''}"; expected ${parts.map((each) => each.name).join(', ')}`)
  return part
}
