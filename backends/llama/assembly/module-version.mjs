// Beside the bundle its package.json is somewhere else than beside the module that asks for it.
import { readFile } from 'node:fs/promises'

export const getModuleVersion = async () => JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')).version
