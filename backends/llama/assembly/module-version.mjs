// Beside the bundle its package.json is in another place than beside the module that needs it.
import { readFile } from 'node:fs/promises'

export const getModuleVersion = async () => JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')).version
