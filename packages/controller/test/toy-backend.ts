// A clone with one backend that needs packages: an engine, a large package that the engine never uses, and native ones.
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const packageFile = (name: string, more: object = {}): string =>
  JSON.stringify({ name, version: '1.2.3', license: 'MIT', type: 'module', ...more })

const files: Readonly<Record<string, string>> = {
  'package-lock.json': '{}',
  'node_modules/engine/package.json': packageFile('engine', { main: 'dist/index.js' }),
  'node_modules/engine/LICENSE': 'do what you like',
  'node_modules/engine/data/words.txt': 'kept',
  'node_modules/engine/dist/index.js': `import { large } from 'large'
import { isTested } from './test.js'
import small from 'small'
export const say = async () => ({ large: typeof large, isTested, small, native: (await import('@native/' + process.argv[2])).name })`,
  'node_modules/engine/dist/test.js': 'export const isTested = true',
  'node_modules/large/package.json': packageFile('large', { main: 'index.js' }),
  'node_modules/large/index.js': 'export const large = () => "much code"',
  'node_modules/small/package.json': packageFile('small', { main: 'index.js' }),
  'node_modules/small/index.js': 'export default "small"',
  'node_modules/small/licence.md': 'be nice',
  'node_modules/@native/linux-x64/package.json': packageFile('@native/linux-x64', { exports: './index.js' }),
  'node_modules/@native/linux-x64/index.js': 'export const name = "x64"',
  'node_modules/@native/linux-arm64/package.json': packageFile('@native/linux-arm64', { exports: './index.js' }),
  'node_modules/@native/linux-arm64/index.js': 'export const name = "arm64"',
  // Left out when packages were installed, as npm's overrides do it.
  'node_modules/@native/linux-riscv64/package.json': packageFile('empty'),
  'backends/toy/backend.json': JSON.stringify({ name: 'toy', version: '1', license: 'MIT' }),
  'backends/toy/server.mjs': `import { say } from 'engine'\nconsole.log(JSON.stringify(await say()))`,
  'backends/toy/assembly/test.mjs': 'export const isTested = false',
  'backends/toy/package.json': JSON.stringify({
    dependencies: { engine: '1.2.3' },
    assembly: {
      bundle: 'engine',
      keep: ['data'],
      replace: { 'dist/test.js': 'assembly/test.mjs' },
      without: ['large'],
      platforms: {
        'linux-x64': '@native/linux-x64',
        'linux-arm64': '@native/linux-arm64',
        'linux-riscv64': '@native/linux-riscv64',
        'darwin-arm64': '@native/darwin-arm64',
      },
    },
  }),
}

export async function makeToyClone(root: string): Promise<{ root: string; backends: string; toy: string }> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), text)
  }
  return { root, backends: join(root, 'backends'), toy: join(root, 'backends', 'toy') }
}
