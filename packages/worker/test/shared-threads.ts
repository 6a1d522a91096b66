// One pool of storage threads for all tests of a process: starting a thread costs more than most tests.
import { createThreads } from '../src/storage/threads.ts'

export const sharedThreads = createThreads()
