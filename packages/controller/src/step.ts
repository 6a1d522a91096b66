// The one seam for tests inside the flow: effects report where they stand, by their names in the catalogue of failures.
// Nobody listens in production; a test's own entry point kills, pauses or throws there.
export type Step = (name: string) => Promise<void> | void

export const noStep: Step = () => undefined
