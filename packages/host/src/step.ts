// The one seam for tests inside a flow: effects report their named steps (the names of the fault catalogue). Production
// code passes `noStep`; a test's entry point kills, pauses or throws at a step.
export type Step = (name: string) => Promise<void> | void

export const noStep: Step = () => undefined
