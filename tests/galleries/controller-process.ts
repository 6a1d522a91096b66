// A controller in a process of its own, so that it can be killed, with whatever backends a test gives it. Run as
//   node controller-process.ts '{"directory":…,"databaseUrl":…,"flags":{…},"backendsDirectory":…}'
import { startTestController, type TestControllerOptions } from '../../packages/testkit/src/test-controller.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as Pick<
  TestControllerOptions,
  'directory' | 'databaseUrl' | 'flags' | 'backendsDirectory'
>
const controller = await startTestController(options)
process.stdout.write(`ready ${controller.url}\n`)
process.once('SIGTERM', () => void controller.stop().then(() => process.exit(0)))
