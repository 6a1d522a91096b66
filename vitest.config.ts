// Unit tests share nothing and need nothing; integration tests (*.int.test.ts) share one PostgreSQL server and may
// start processes; simulations (*.sim.test.ts) run many seeds. They run in this order, so that what is quick fails first.
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { startBundledThreads } from './packages/testkit/src/bundle-programs.ts'

const everyTest = ['packages/*/{src,test}/**/*.test.{ts,tsx}', 'tests/**/*.test.ts', 'scripts/**/*.test.ts']
const integration = '{packages,tests}/**/*.int.test.{ts,tsx}'
const simulation = '{packages,tests}/**/*.sim.test.ts'

/** System tests take longest, whatever their size: begun first, they leave no core idle at the end. */
class SystemTestsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- vitest's sequencer has a method of that name
    const sorted = await super.sort(files)
    const { system = [], other = [] } = Object.groupBy(sorted, ({ moduleId }) => (moduleId.includes('/tests/') ? 'system' : 'other'))
    return [...system, ...other]
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 3,
    sequence: { sequencer: SystemTestsFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: everyTest,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          exclude: [integration, simulation],
          // Sources have no module state, so files may share a process: 4.7 CPU seconds instead of 22 for 45 files.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        plugins: [startBundledThreads()],
        test: {
          name: 'int',
          include: [integration],
          testTimeout: 240_000,
          hookTimeout: 240_000,
          isolate: false,
          globalSetup: 'packages/testkit/src/global-setup.ts',
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: 'sim', include: [simulation], testTimeout: 120_000, sequence: { groupOrder: 2 } } },
    ],
  },
})
