// The settings of controller and worker, loaded when a command needs them: what only talks to a
// controller starts without either.
import type { ControllerSettings } from '@muster/controller'
import { defineSettings, type Settings } from '@muster/host'
import { logSettings } from '../settings/log-settings.ts'
import { upSettings } from '../settings/up-settings.ts'

/** Of all commands: they share one configuration file. */
export const loadAllSettings = async (): Promise<readonly Settings[]> => [
  await loadControllerSettings(),
  await loadWorkerSettings(),
  upSettings,
  logSettings,
]

export async function loadControllerSettings() {
  const { controllerSettings } = await import('@muster/controller')
  return defineSettings(controllerSettings)
}

/** Whether whoever reaches the bus of a controller with these settings can speak for every node. */
export async function isBusOpen(settings: ControllerSettings): Promise<boolean> {
  const controller = await import('@muster/controller')
  return controller.isBusOpen(settings)
}

export async function loadWorkerSettings() {
  const { workerSettings } = await import('@muster/worker')
  return defineSettings(workerSettings)
}

/** Of the workers that `up` runs: on one machine they are its own. */
export async function loadModelFileSettings() {
  const { modelFileSettings } = await import('@muster/worker')
  return modelFileSettings
}
