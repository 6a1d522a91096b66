export { startController, type Controller, type ControllerDeps } from './main.ts'
export { checkSettings, controllerSettings, type ControllerSettings } from './settings.ts'
