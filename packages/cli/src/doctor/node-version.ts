// Which Node runs this.
import { type Check, fail, ok, type Verdict } from './verdict.ts'

const neededNode = 24

export function judgeNodeVersion(version: string): Verdict {
  const major = Number(/^v?(\d+)\./.exec(version)?.[1])
  return major >= neededNode
    ? ok(version)
    : fail(`${version} is too old`, `use Node ${neededNode} or newer; in a clone, \`npm run -s muster --\` brings its own`)
}

export const nodeVersionCheck = (): Check => ({ name: 'node', run: async () => judgeNodeVersion(process.versions.node) })
