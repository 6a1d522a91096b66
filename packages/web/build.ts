// Builds the web page into a directory, with compressed copies of each file: `node build.ts DIR`.
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { build } from 'vite'

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error('usage: node build.ts DIRECTORY')

// `native`: by default vite writes a compiled copy of the configuration into node_modules, which may be read-only.
await build({
  ...{ configFile: join(import.meta.dirname, 'vite.config.ts'), configLoader: 'native', logLevel: 'warn' },
  build: { outDir: directory },
})
for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
  if (entry.isFile()) await compress(join(entry.parentPath, entry.name))
}

async function compress(file: string): Promise<void> {
  const bytes = await readFile(file)
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params }))
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }))
}
