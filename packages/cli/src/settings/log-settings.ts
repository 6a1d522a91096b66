// How a process logs: on stderr, for people or for machines.
import { choice, defineSettings, logFormats, logLevels } from '@muster/host'

export const logSettings = defineSettings({
  logLevel: choice({ flag: 'log-level', values: logLevels, default: 'info', help: `how much is logged: ${logLevels.join(', ')}` }),
  logFormat: choice({ flag: 'log-format', values: logFormats, default: 'text', help: `how it is written: ${logFormats.join(', ')}` }),
})
