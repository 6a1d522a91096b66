// Merges the overrides of a gallery entry over its base, as LocalAI does: mappings key by key at any depth, everything else
// (lists, scalars, null, empty ones too) replaces.

type Mapping = Readonly<Record<string, unknown>>

export function mergeOverrides(base: Mapping, overrides: Mapping): Mapping {
  const merged = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(overrides)) {
    const before = merged.get(key)
    merged.set(key, isMapping(before) && isMapping(value) ? mergeOverrides(before, value) : value)
  }
  return Object.fromEntries(merged)
}

export const isMapping = (value: unknown): value is Mapping => typeof value === 'object' && value !== null && !Array.isArray(value)
