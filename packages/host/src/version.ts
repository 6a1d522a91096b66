// The product's version: all packages carry the same one.
import manifest from '../package.json' with { type: 'json' }

export const version: string = manifest.version
