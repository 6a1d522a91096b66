// What `muster up` has beyond the settings of its controller.
import { defineSettings, int } from '@muster/host'

export const upSettings = defineSettings({
  workers: int({ flag: 'workers', default: 1, min: 0, max: 64, help: 'how many workers to run in this process' }),
})
