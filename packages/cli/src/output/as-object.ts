/** An answer as it came, to be shown together with another. */
export const asObject = (raw: unknown): object => (typeof raw === 'object' && raw !== null ? raw : {})
