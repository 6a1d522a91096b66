// Stub: the test for mappings of the merge.
type Mapping = Readonly<Record<string, unknown>>

export const isMapping = (value: unknown): value is Mapping => typeof value === 'object' && value !== null && !Array.isArray(value)
