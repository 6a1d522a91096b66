// The configurations in LocalAI's own base files, when MUSTER_LOCALAI_CORPUS names a directory with them.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ModelConfig } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { isObject, readYaml } from '../gallery/yaml-value.ts'
import { convertModel } from './convert-model.pure.ts'

const corpus = process.env['MUSTER_LOCALAI_CORPUS']
const limits = { maxBytes: 1_000_000, maxValues: 20_000, maxDepth: 32, scalars: 'typed' } as const

/** Keys in the base files that LocalAI ignores. */
const ignored = new Set(['template.image'])
/** Refused with good reason: no backend is named; phi-3-vision counts media with a function of Sprig. */
const refusable = new Set(['backend', 'template.multimodal'])
/** Broken in the original: an escape that YAML does not have, and a key twice. */
const unreadable = new Set(['chatml-hercules.yaml', 'command-r.yaml', 'vllm.yaml'])

describe.runIf(corpus !== undefined)('the base files of LocalAI', () => {
  it('have only keys with a row, and are converted to valid configurations', async () => {
    const directory = join(corpus ?? '', 'base')
    const configurations = new Map<string, Record<string, unknown>>()
    for (const file of await readdir(directory)) {
      const page = readYaml(await readFile(join(directory, file), 'utf8'), file, limits)
      const config = isObject(page) ? page['config_file'] : undefined
      if (typeof config !== 'string' || unreadable.has(file)) continue
      const read = readYaml(config, file, limits)
      if (isObject(read)) configurations.set(file, { ...read })
    }
    expect(configurations.size).toBe(78)
    for (const [file, source] of configurations) {
      const { config, keys } = convertModel({ name: 'm', ...source })
      const unknown = keys.filter(({ message }) => message.startsWith('LocalAI does not know')).map(({ key }) => key)
      expect({ file, unknown: unknown.filter((key) => !ignored.has(key)) }).toEqual({ file, unknown: [] })
      const refused = keys.filter(({ key, outcome }) => outcome === 'refused' && !refusable.has(key))
      expect({ file, refused }).toEqual({ file, refused: [] })
      const checked = ModelConfig.safeParse({ backend: 'b', ...config })
      expect({ file, problems: checked.error?.issues ?? [] }).toEqual({ file, problems: [] })
    }
  })
})
