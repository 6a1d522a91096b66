export type { ControllerDeps } from './assemble.ts'
export { startController, type Controller } from './main.ts'
export { checkSettings, controllerSettings, isBusOpen, type ControllerSettings } from './settings.ts'
